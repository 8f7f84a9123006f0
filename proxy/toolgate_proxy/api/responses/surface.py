"""The API surface for OpenAI's Responses API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ToolgateError

from ...chat.response import ChatResponse
from ..surface import ANY_CLIENT, Client
from .defaults import with_defaults
from .error_words import in_own_words
from .output.stream import ResponseStream, WholeResponse, server_sent
from .parameters import BY_NAME
from .request import parse_request

PATH = re.compile(r"(?:(?:/openai)?/v1)?/responses")
"""The paths that LiteLLM accepts."""


class Responses:
    name = "responses"
    call_type = "aresponses"
    parameters = frozenset(BY_NAME)

    def model_in_path(self, path: str) -> str | None:
        return None if PATH.fullmatch(path) is None else ""

    def is_streamed(self, body: Mapping[str, Any]) -> bool:
        return body.get("stream") is True

    def with_defaults(self, body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        return with_defaults(body, defaults)

    def parse(
        self,
        body: Mapping[str, Any],
        *,
        model: str,
        open_objects: bool = False,
        omit_hosted: bool = True,
        client: Client = ANY_CLIENT,
    ) -> ChatRequest:
        return parse_request(body, model=model, open_objects=open_objects, omit_hosted=omit_hosted)

    def stream(self, response: ChatResponse, model: str) -> ResponseStream:
        return ResponseStream(response, model)

    def whole(self, response: ChatResponse, model: str) -> WholeResponse:
        return WholeResponse(response, model)

    def error(self, error: ToolgateError, request: ChatRequest | None = None) -> dict[str, Any]:
        return in_own_words(error.body(), request)

    def error_event(self, body: bytes) -> bytes:
        """An error before the first event of the response. OpenAI documents its fields at the top
        of the event and sends them in `error`, so both forms are there."""
        error = orjson.loads(body)["error"]
        shown = {name: error.get(name) for name in ("code", "message", "param")}
        return server_sent(
            "error", {"type": "error", "sequence_number": 0, **shown, "error": error}
        )
