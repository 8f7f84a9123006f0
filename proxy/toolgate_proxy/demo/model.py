"""The demo model: a very small model in the distribution toolgate-demo-model, extra [demo]."""

from __future__ import annotations

from pathlib import Path

from ..stack.extras import install_command

NAME = "toolgate-demo"


def directory() -> Path | None:
    """The directory of the demo model, or None if its distribution is not installed."""
    try:
        import toolgate_demo_model
    except ModuleNotFoundError:
        return None
    return toolgate_demo_model.path()


def is_shipped(model: str) -> bool:
    return Path(model).resolve() == directory()


def missing() -> str:
    """What to do without the demo model."""
    return (
        f"The demo model is not installed: run {install_command('demo')}, or choose another model "
        "with --model DIR."
    )
