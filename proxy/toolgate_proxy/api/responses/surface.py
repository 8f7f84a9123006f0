"""The API surface for OpenAI's Responses API."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ToolgateError

from ...chat.response import ChatResponse
from ...context import RateLimitHeaders
from ..surface import ANY_CLIENT, COMMENT, Client, Counting
from .defaults import with_defaults
from .error_words import in_own_words
from .output.stream import ResponseStream, WholeResponse, error_event
from .parameters import BY_NAME
from .portable import portable
from .request import parse_request
from .state.history import recall

PATH = re.compile(r"(?:(?:/openai)?/v1)?/responses")
"""The paths that LiteLLM accepts."""


COUNTING = Counting(
    path=re.compile(r"(?:(?:/openai)?/v1)?/responses/input_tokens"),
    prepared=dict,
    body=lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens},
)


class Responses:
    name = "responses"
    path = PATH
    call_type = "aresponses"
    parameters = frozenset(BY_NAME)
    keep_alive = COMMENT
    rate_limits: RateLimitHeaders = "openai"
    request_id_header: str | None = None
    counting: Counting | None = COUNTING
    parse = staticmethod(parse_request)
    portable = staticmethod(portable)

    def owns(self, path: str, headers: Container[str]) -> bool:
        return PATH.fullmatch(path) is not None

    async def recall(self, body: Mapping[str, Any], client: Client) -> tuple[dict[str, Any], int]:
        return await recall(body, client)

    def with_defaults(self, body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        return with_defaults(body, defaults)

    def stream(
        self, response: ChatResponse, model: str, client: Client = ANY_CLIENT
    ) -> ResponseStream:
        return ResponseStream(response, model, client)

    def whole(
        self, response: ChatResponse, model: str, client: Client = ANY_CLIENT
    ) -> WholeResponse:
        return WholeResponse(response, model, client)

    def error(
        self,
        error: ToolgateError,
        request: ChatRequest | None = None,
        request_id: str | None = None,
    ) -> dict[str, Any]:
        return in_own_words(error.body(), request)

    def error_event(self, shown: Mapping[str, Any]) -> bytes:
        return error_event(shown["error"])
