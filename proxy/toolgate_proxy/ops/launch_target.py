"""What a launched client is to use: a gateway, its model, and the context length of the model."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

MIN_WINDOW = 32_768
"""Smallest context length, in tokens, that is passed to clients. Their own prompts and reserves
take almost as much: with less, some clients compact before each request or send none."""


@dataclass(frozen=True)
class Window:
    """The context of a model, in tokens."""

    tokens: int
    output: int
    """What a client reserves for the response."""

    @classmethod
    def of_model(cls, shown: dict[str, Any]) -> Window | None:
        """Return the window that `GET /v1/models/{id}` shows. None if it has none, because no
        backend has responded yet, or a smaller one than MIN_WINDOW."""
        tokens, output = shown.get("max_model_len"), shown.get("max_output_tokens")
        if not isinstance(tokens, int) or not isinstance(output, int) or tokens < MIN_WINDOW:
            return None
        return cls(tokens, output)


@dataclass(frozen=True)
class Target:
    url: str
    """Of the gateway, without a path."""
    model: str
    window: Window | None = None

    def file(self, client: str) -> Path:
        """Return the path of the file that Toolgate writes for a client. It is not the user's, and
        can be removed at any time."""
        # An empty or relative value counts as unset (XDG Base Directory Specification).
        configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
        folder = configured if configured.is_absolute() else Path.home() / ".cache"
        name = f"{client}-{quote(self.model, safe='')}.json"
        return folder / "toolgate" / "launch" / name
