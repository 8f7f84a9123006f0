"""The API surface for OpenAI's chat completions."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

import orjson

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ToolgateError

from ...chat.response import ChatResponse, ResponseEvent
from ...features.all import CHAT
from ...form import RateLimitHeaders
from ..shared.output import COMMENT, data_event
from ..surface import ANY_CLIENT, Client, Counting, Stateless
from .chunks import DONE, Chunks, server_sent
from .messages import in_order_of_request
from .parameters import BY_NAME
from .request import parse_request
from .response import WholeResponse

PATH = re.compile(
    r"(?:/v1)?(?:/chat/completions"
    r"|(?:/openai/deployments|/engines)/(?P<model>.+)/chat/completions)"
)
"""The paths that LiteLLM accepts. Azure and OpenAI's older API have the model in the path."""


class ChatCompletionStream(Stateless):
    def __init__(self, response: ChatResponse, model: str) -> None:
        self._chunks = Chunks(response, model)

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        return server_sent(self._chunks.from_events(events))

    def end(self) -> bytes:
        return server_sent(self._chunks.last()) + DONE

    def failed(self, error: Mapping[str, Any]) -> bytes:
        return data_event(orjson.dumps({"error": error}))


class ChatCompletions(Stateless):
    name = "chat completions"
    path = PATH
    call_type = "acompletion"
    parameters = frozenset(BY_NAME)
    keep_alive = COMMENT
    rate_limits: RateLimitHeaders = "openai"
    request_id_header: str | None = None
    counting: Counting | None = None
    parse = staticmethod(parse_request)

    def with_search(self, body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
        for feature in CHAT:
            body = feature.prepared(body, listed)
        return body

    def owns(self, path: str, headers: Container[str]) -> bool:
        return PATH.fullmatch(path) is not None

    def portable(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return dict(body)

    def with_defaults(self, body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        return {**defaults, **body}

    def stream(
        self, response: ChatResponse, model: str, client: Client = ANY_CLIENT
    ) -> ChatCompletionStream:
        return ChatCompletionStream(response, model)

    def whole(
        self, response: ChatResponse, model: str, client: Client = ANY_CLIENT
    ) -> WholeResponse:
        return WholeResponse(response, model)

    def error(
        self,
        error: ToolgateError,
        request: ChatRequest | None = None,
        request_id: str | None = None,
    ) -> dict[str, Any]:
        body = error.body()
        return in_order_of_request(body, request.message_paths) if request else body

    def error_event(self, shown: Mapping[str, Any]) -> bytes:
        return data_event(orjson.dumps(shown))
