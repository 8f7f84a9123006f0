"""All API surfaces of the gateway."""

from __future__ import annotations

from collections.abc import Container

from .chat_completions.surface import ChatCompletions
from .messages.surface import Messages
from .responses.surface import Compact, Responses
from .surface import Surface

COMPLETIONS, RESPONSES, MESSAGES = ChatCompletions(), Responses(), Messages()
COMPACT = Compact()
"""An operation of the Responses API."""
SURFACES: tuple[Surface, ...] = (COMPLETIONS, RESPONSES, MESSAGES)


def surface_of(path: str, headers: Container[str]) -> Surface | None:
    """Return the surface in whose form errors at this path are."""
    return next((surface for surface in SURFACES if surface.owns(path, headers)), None)
