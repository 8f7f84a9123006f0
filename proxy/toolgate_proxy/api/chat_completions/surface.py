"""OpenAI's chat completions API as a surface of the gateway."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from toolgate_core.errors import ToolgateError
from toolgate_core.plan import ChatRequest

from ...chat.response import ChatResponse, ResponseEvent
from .chunks import DONE, Chunks, server_sent
from .request import parse_request
from .response import WholeResponse

PATH = re.compile(
    r"(?:/v1)?(?:/chat/completions"
    r"|(?:/openai/deployments|/engines)/(?P<model>.+)/chat/completions)"
)
"""LiteLLM's spellings of the path; the latter two are those of Azure and of OpenAI's older API."""


class ChatCompletionStream:
    def __init__(self, answer: ChatResponse, model: str) -> None:
        self._chunks = Chunks(answer, model)
        self._include_usage = answer.request.include_usage

    def events(self, pieces: Iterable[ResponseEvent]) -> bytes:
        return server_sent(self._chunks.of(pieces))

    def end(self) -> bytes:
        return (server_sent([self._chunks.usage()]) if self._include_usage else b"") + DONE


class ChatCompletions:
    name = "chat completions"
    call_type = "acompletion"

    def model_in_path(self, path: str) -> str | None:
        found = PATH.fullmatch(path)
        return None if found is None else found["model"] or ""

    def is_streamed(self, body: Mapping[str, Any]) -> bool:
        return body.get("stream") is True

    def parse(
        self, body: Mapping[str, Any], *, model: str, open_objects: bool = False
    ) -> ChatRequest:
        return parse_request(body, model=model, open_objects=open_objects)

    def stream(self, answer: ChatResponse, model: str) -> ChatCompletionStream:
        return ChatCompletionStream(answer, model)

    def whole(self, answer: ChatResponse, model: str) -> WholeResponse:
        return WholeResponse(answer, model)

    def error(self, error: ToolgateError) -> dict[str, Any]:
        return error.body()

    def error_event(self, body: bytes) -> bytes:
        return b"data: " + body.replace(b"\n", b" ") + b"\n\n"
