"""All API surfaces of the gateway."""

from __future__ import annotations

from .chat_completions.surface import ChatCompletions
from .responses.surface import Responses
from .surface import Surface

SURFACES: tuple[Surface, ...] = (ChatCompletions(), Responses())
