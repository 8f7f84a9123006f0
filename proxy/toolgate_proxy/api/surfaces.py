"""All API surfaces of the gateway."""

from __future__ import annotations

from .chat_completions.surface import ChatCompletions
from .surface import Surface

SURFACES: tuple[Surface, ...] = (ChatCompletions(),)


def surface_of(path: str) -> tuple[Surface, str] | None:
    """The surface that a path belongs to, and the model that the path names, if any."""
    for surface in SURFACES:
        model = surface.model_in_path(path)
        if model is not None:
            return surface, model
    return None
