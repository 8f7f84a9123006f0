"""Weights, tokenizer and configuration of Toolgate's demo model."""

from __future__ import annotations

from pathlib import Path


def path() -> Path:
    """Return the model directory, as vLLM serves it. Its README.md is the model card."""
    return Path(__file__).resolve().parent / "weights"
