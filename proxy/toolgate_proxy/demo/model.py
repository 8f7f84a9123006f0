"""The package's own model: very small, trained from scratch to call tools, for the demo."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parents[3] / "demo_model" / "toolgate_demo_model" / "weights"
"""As vLLM serves it. Its README.md is the model card; `demo_model/trainer` holds how it is made."""

NAME = "toolgate-demo"


def is_shipped(model: str) -> bool:
    return Path(model).resolve() == DIRECTORY


def is_there() -> bool:
    """Whether it was trained: `make demo-model` writes it."""
    return (DIRECTORY / "model.safetensors").exists()
