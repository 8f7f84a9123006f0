"""All API surfaces of the gateway."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from toolgate_core.errors import ToolgateError

from .chat_completions.surface import ChatCompletions
from .messages.surface import Messages
from .responses.surface import Compact, Responses
from .surface import Surface

COMPLETIONS, RESPONSES, MESSAGES = ChatCompletions(), Responses(), Messages()
COMPACT = Compact()
"""An operation of the Responses API."""
SURFACES: tuple[Surface, ...] = (COMPLETIONS, RESPONSES, MESSAGES)
GOOGLES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}
"""Google's names of HTTP statuses."""


class Google(ChatCompletions):
    """Google's API, which LiteLLM serves. Its errors are in the form that its clients read."""

    path = re.compile(r"(?:/v1(?:beta)?)?/models/.+:\w+")

    def owns(self, path: str, headers: Container[str]) -> bool:
        return self.path.fullmatch(path) is not None

    def error(self, error: ToolgateError, *_: object, **__: object) -> dict[str, Any]:
        named = GOOGLES.get(error.status, "UNKNOWN")
        return {"error": {"code": error.status, "message": error.message, "status": named}}


IN_ERRORS: tuple[Surface, ...] = (*SURFACES, Google())
"""The forms of errors."""


def surface_of(path: str, headers: Container[str]) -> Surface | None:
    """Return the surface in whose form errors at this path are."""
    return next((surface for surface in IN_ERRORS if surface.owns(path, headers)), None)
