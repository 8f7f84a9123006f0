"""The demo model: a very small model in the distribution toolgate-demo-model, extra [demo]."""

from __future__ import annotations

from pathlib import Path

NAME = "toolgate-demo"

MISSING = (
    "The demo model is not installed. Run `pip install 'toolgate[demo]'` (in a clone:"
    " `pip install ./demo_model`), or choose another model with --model DIR."
)


def directory() -> Path | None:
    """The directory of the demo model, or None if its distribution is not installed."""
    try:
        import toolgate_demo_model
    except ModuleNotFoundError:
        return None
    return toolgate_demo_model.path()


def is_shipped(model: str) -> bool:
    return Path(model).resolve() == directory()
