"""The API surface for OpenAI's Responses API.

The engine and the backends name the parameters of chat completions, so their errors are reworded.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ContextLengthExceeded, ToolgateError, UnsupportedParameter
from toolgate_core.errors.base import MAX_MESSAGE, MAX_PARAM, shortened
from toolgate_core.text_size import BYTES_PER_TOKEN, text_bytes

from ...chat.response import ChatResponse, ResponseEvent
from ...form import RateLimitHeaders
from ..shared.output import COMMENT
from ..surface import ANY_CLIENT, Client, Counting, Whole
from .feature import written_of
from .items import PREVIOUS, TRIGGER
from .output.body import queued_response, usage_of
from .output.collector import Output
from .output.stream import ResponseStream, WholeResponse, failed_events
from .parameters import BY_NAME, with_defaults
from .request import BACKGROUND, parse_request
from .state import as_items, recall, turn_of, with_ids

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
    parse = staticmethod(parse_request)
    portable = staticmethod(portable)
    with_defaults = staticmethod(with_defaults)
    stream = staticmethod(ResponseStream)

    def owns(self, path: str, headers: Container[str]) -> bool:
        return PATH.fullmatch(path) is not None

    async def recall(self, body: Mapping[str, Any], client: Client) -> tuple[dict[str, Any], int]:
        return await recall(body, client)

    def runs_in_background(self, body: Mapping[str, Any]) -> bool:
        return body.get(BACKGROUND) is True

    async def accepted(self, request: ChatRequest, model: str, client: Client) -> None:
        if client.background is not None:
            turn = turn_of(queued_response(request, model), written_of(request).input)
            await client.background.queue(client.owner, turn)

    def with_search(self, body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
        return body

    def whole(self, response: ChatResponse, model: str, client: Client = ANY_CLIENT) -> Whole:
        return WholeResponse(response, model, client)

    def error(
        self,
        error: ToolgateError,
        request: ChatRequest | None = None,
        request_id: str | None = None,
    ) -> dict[str, Any]:
        if request is None and isinstance(error, UnsupportedParameter):
            return error.body()  # The parser's words, about what the client named.
        return in_own_words(error.body(), request)

    def error_event(self, shown: Mapping[str, Any]) -> bytes:
        return failed_events(shown["error"])


NAMES = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
NAME = re.compile(rf"(?<![\w.])(?:{'|'.join(NAMES)})(?!\w)")
MESSAGE = re.compile(r"(?<![\w.])messages\[(?P<at>\d+)\](?P<content>\.content(?=\[))?")
QUOTED_MESSAGES = re.compile(r"(['`\"])messages\1")
TOO_LONG = "Your input exceeds the context window of this model."
"""OpenAI's words, by which clients of this API recognize a prompt that is too long."""


def in_own_words(body: dict[str, Any], request: ChatRequest | None) -> dict[str, Any]:
    """`body`: an error in OpenAI's form. `request`: the request that failed, if it was parsed."""
    error = body["error"]
    param, message = error.get("param"), _replaced(error["message"], request)
    if error["code"] == ContextLengthExceeded.code and param == "messages":
        message = f"{TOO_LONG} {message}"
    own = {"message": shortened(message, MAX_MESSAGE)}
    if isinstance(param, str):
        own["param"] = "input" if param == "messages" else _replaced(param, request)
        own["param"] = shortened(own["param"], MAX_PARAM)
    return {**body, "error": {**error, **own}}


def _replaced(text: str, request: ChatRequest | None) -> str:
    paths = request.message_paths if request is not None else ()

    def path_of(found: re.Match[str]) -> str:
        at, content = int(found["at"]), found["content"] or ""
        if request is None or at >= len(paths):
            return found[0]
        is_result = request.messages[at]["role"] == "tool"
        return paths[at] + (content.replace("content", "output") if is_result else content)

    text = NAME.sub(lambda found: NAMES[found[0]], text)
    return QUOTED_MESSAGES.sub(r"\1input\1", MESSAGE.sub(path_of, text))


class Compact(Responses):
    path = re.compile(r"(?:(?:/openai)?/v1)?/responses/compact")
    counting: Counting | None = None

    async def recall(self, body: Mapping[str, Any], client: Client) -> tuple[dict[str, Any], int]:
        return await super().recall(_with_trigger(body), client)

    def whole(self, response: ChatResponse, model: str, client: Client = ANY_CLIENT) -> Whole:
        return CompactedResponse(response, client)


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


class CompactedResponse:
    """A `response.compaction` object. It is not stored."""

    def __init__(self, response: ChatResponse, client: Client) -> None:
        self._response = response
        self._output = Output(response, summarized=False)

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for _ in self._output.add(events):
            pass

    async def keep(self) -> None:
        pass

    def body(self) -> dict[str, Any]:
        response = self._response
        kept = retained(written_of(response.request).retained, response.context_length)
        return {
            "id": response.head.id,
            "object": "response.compaction",
            "created_at": response.head.created,
            "output": [*map(_shown, with_ids(kept, response.head.id)), *self._output.items()],
            "usage": usage_of(response.all_counts),
        }


def _shown(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as an item of the output, whose content is an array."""
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    return {**message, "content": content, "status": message.get("status") or "completed"}


KEPT_ROLES = ("user", "developer", "system")
"""Roles whose messages clients keep beside a summary."""


def retained(items: Sequence[Any], context: int) -> list[Any]:
    """Return those items of a compacted conversation that stay beside its summary: the latest
    messages of users and developers, in a quarter of the context. `context`: in tokens, of which
    the items have as many as estimated."""
    left = context // 4 * BYTES_PER_TOKEN
    kept: list[Any] = []
    for item in reversed([item for item in items if _is_kept(item)]):
        left -= text_bytes(item)
        if left < 0:
            break
        kept.append(item)
    return kept[::-1]


def _is_kept(item: object) -> bool:
    if isinstance(item, str):
        return True
    return (
        isinstance(item, dict)
        and item.get("type") in (None, "message")
        and item.get("role") in KEPT_ROLES
    )
