"""The API surface for OpenAI's Responses API."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ToolgateError, UnsupportedParameter

from ...limits.reservation import RateLimitHeaders
from ..shared.output import COMMENT
from ..surface import Client, Counting, Reading
from .items import PREVIOUS, TRIGGER
from .output import CompactWriter, ResponsesWriter, failed_events, in_own_words
from .parameters import BY_NAME, with_defaults
from .request import BACKGROUND, read
from .state import as_items, recall

SEALED = ("reasoning", "compaction")
"""Types of items that have encrypted content."""


def portable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recalled body without what only this gateway knows: the ids of stored responses and
    items, and reasoning and summaries that are encrypted for it. Raise UnsupportedParameter for a
    response of the background: the response of another provider is not stored."""
    if body.get(BACKGROUND):
        raise UnsupportedParameter(
            f"The models of other providers do not support {BACKGROUND!r}.", param=BACKGROUND
        )
    kept = {name: value for name, value in body.items() if name != PREVIOUS}
    items = body.get("input")
    if isinstance(items, list):
        kept["input"] = [_without_id(item) for item in items if not _is_sealed(item)]
    return kept


def _is_sealed(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in SEALED


def _without_id(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: value for name, value in item.items() if name != "id"}


PATH = re.compile(r"(?:(?:/openai)?/v1)?/responses")
"""The paths that LiteLLM accepts."""


COUNTING = Counting(
    path=re.compile(r"(?:(?:/openai)?/v1)?/responses/input_tokens"),
    prepared=dict,
    body=lambda tokens, _: {"object": "response.input_tokens", "input_tokens": tokens},
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
    writer: type[ResponsesWriter] = ResponsesWriter
    portable = staticmethod(portable)
    with_defaults = staticmethod(with_defaults)

    def owns(self, path: str, headers: Container[str]) -> bool:
        return PATH.fullmatch(path) is not None

    async def recall(self, body: Mapping[str, Any], client: Client) -> tuple[dict[str, Any], int]:
        return await recall(body, client)

    def runs_in_background(self, body: Mapping[str, Any]) -> bool:
        return body.get(BACKGROUND) is True

    def read(
        self, body: Mapping[str, Any], reading: Reading
    ) -> tuple[ChatRequest, ResponsesWriter]:
        return read(body, reading, self.writer)

    def with_search(self, body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
        return body

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        if isinstance(error, UnsupportedParameter):
            return error.body()  # The parser's words, about what the client named.
        return in_own_words(error.body())

    def error_event(self, shown: Mapping[str, Any]) -> bytes:
        return failed_events(shown["error"])


class Compact(Responses):
    path = re.compile(r"(?:(?:/openai)?/v1)?/responses/compact")
    counting: Counting | None = None
    writer = CompactWriter

    async def recall(self, body: Mapping[str, Any], client: Client) -> tuple[dict[str, Any], int]:
        return await super().recall(_with_trigger(body), client)


def _with_trigger(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request for a response that is not stored. Raise UnsupportedParameter.
    An invalid `input` stays as it is: the parser reports it."""
    if body.get("stream"):
        raise UnsupportedParameter(
            "'stream' is not supported by this operation. Remove it.", param="stream"
        )
    given = body.get("input")
    items = as_items(given)
    if not items and (given is not None or not isinstance(body.get(PREVIOUS), str)):
        return dict(body)
    return {**body, "input": [*items, {"type": TRIGGER}], "store": False}
