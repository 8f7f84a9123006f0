"""Streamed and complete responses, and errors in the words of the API.

The engine and the backends name the parameters of chat completions, so their errors are reworded.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from toolgate_core.deltas import Finish
from toolgate_core.errors import ContextLengthExceeded, ToolgateError
from toolgate_core.errors.base import MAX_MESSAGE, MAX_PARAM, shortened
from toolgate_core.text_size import BYTES_PER_TOKEN, text_bytes

from ...chat.response import ChatResponse, ResponseEvent
from ...features.feature import outputs
from ...request.chat_request import ChatRequest
from ..shared.output import finish_fields, prompt_fields, typed_events
from ..shared.tools import EchoedTool
from ..surface import ANY_CLIENT, ApiResponse, Client, Writer
from .body import OutputItems, Status, failure, is_summarized, repeated, response_object, usage_of
from .feature import ResponsesFeature
from .output_items import REASONING, SUMMARY, Event, TextKind
from .state import store, turn_of, with_ids

CUT = {"reason": "max_output_tokens"}
ENDS = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
    "cancelled": "response.failed",  # OpenAI documents no event of its own
}
"""The type of the last event by the response's status."""


class Response(ApiResponse):
    """A response object, or its server-sent events. Each has its type in `event:` and in its data,
    and a sequence number. `model` is the name that the client sent."""

    _sent = 0
    _tools: Mapping[str, Any] | None = None
    """Those of the request as JSON, which are in three events."""

    def __init__(
        self, writer: ResponsesWriter, response: ChatResponse, model: str, client: Client
    ) -> None:
        kind = SUMMARY if is_summarized(writer.values) else REASONING
        self._response, self._model, self._output = response, model, writer.output(response, kind)
        self._created = client.queued or response.head.created
        self._repeated = repeated(writer.values, writer.tools, response.request.tools)
        self._store = partial(store, given=writer.input, client=client)
        self._kept: dict[str, Any] | None = None

    def shown(self, events: Iterable[ResponseEvent]) -> Iterator[Event]:
        return self._output.add(events)

    async def keep(self) -> None:
        self._kept = await self._store(self._at_end())

    def body(self) -> dict[str, Any]:
        return self._kept or self._at_end()

    def _at_end(self) -> dict[str, Any]:
        """Return the response that is completed, or incomplete because of the maximum of tokens,
        with fields beyond OpenAI's, as in chat completions."""
        finish = self._output.finish or Finish("stop")
        fields = finish_fields(finish)
        if self._response.request.extras.return_token_ids:
            fields["token_ids"] = self._output.token_ids
        if finish.reason == "length":
            body = {**self._made("incomplete"), "incomplete_details": CUT}
        else:
            body = {**self._made("completed"), "completed_at": int(time.time())}
        return {**body, **self._usage(), **fields, **prompt_fields(self._response)}

    def _made(self, status: Status) -> dict[str, Any]:
        response_id, items = self._response.head.id, self._output.items()
        return response_object(
            response_id, self._created, self._model, status, self._repeated, items
        )

    def _usage(self) -> dict[str, Any]:
        return {"usage": usage_of(self._response.all_counts)}

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        first: list[bytes] = []
        if not self._sent:
            start = self._made("in_progress")
            self._tools = {"tools": orjson.Fragment(orjson.dumps(start["tools"]))}
            first = self._numbered(first_events({**start, **self._tools}))
        return b"".join((*first, *self._numbered(self.shown(events))))

    def end(self) -> bytes:
        return b"".join(self._numbered([last_event({**self.body(), **(self._tools or {})})]))

    def failed(self, error: Mapping[str, Any]) -> bytes:
        """Return the last event, of a failed response. `error`: the error object. Only a response
        of the background is stored if it failed."""
        self._output.interrupt()
        more = {**failure(error), **self._usage(), "store": self._repeated["background"]}
        return b"".join(self._numbered([last_event({**self._made("failed"), **more})]))

    def _numbered(self, events: Iterable[Event]) -> list[bytes]:
        written = numbered(events, self._sent)
        self._sent += len(written)
        return written


def first_events(start: Mapping[str, Any]) -> list[Event]:
    """Return the events that begin a response. `start`: the response object before the first
    item."""
    created, queued = start, []
    if start.get("background"):
        created = {**start, "status": "queued"}
        queued = [{"type": "response.queued", "response": created}]
    return [
        {"type": "response.created", "response": created},
        *queued,
        {"type": "response.in_progress", "response": {**start, "status": "in_progress"}},
    ]


def last_event(body: Mapping[str, Any]) -> Event:
    return {"type": ENDS[body["status"]], "response": body}


def numbered(events: Iterable[Event], first: int) -> list[bytes]:
    """Return the server-sent events, with sequence numbers from `first`."""
    return [typed_events([event]) for event in _with_numbers(events, first)]


def _with_numbers(events: Iterable[Event], first: int) -> Iterator[Event]:
    for at, event in enumerate(events, first):
        yield {"type": event["type"], "sequence_number": at, **event}


def error_event(error: Mapping[str, Any], number: int = 0) -> bytes:
    """Return the event that reports an error. `error`: the error object. OpenAI documents its
    fields at the top of the event and sends them in `error`, so both forms are there."""
    shown = {name: error.get(name) for name in ("code", "message", "param")}
    return typed_events([{"type": "error", "sequence_number": number, **shown, "error": error}])


def failed_events(error: Mapping[str, Any]) -> bytes:
    """Return the events that report an error before the first event of a response, as OpenAI sends
    them: SDKs raise the first one, and older versions of Codex read the second one only."""
    body = response_object("resp_0", 0, "", "failed", repeated({"store": False}))  # it has no id
    return error_event(error) + b"".join(numbered([last_event({**body, **failure(error)})], 1))


class CompactedResponse(ApiResponse):
    """A `response.compaction` object."""

    def __init__(self, response: ChatResponse, output: OutputItems, items: Sequence[Any]) -> None:
        """`items`: of the conversation."""
        self._response, self._output, self._items = response, output, items

    def shown(self, events: Iterable[ResponseEvent]) -> Iterator[Event]:
        return self._output.add(events)

    def body(self) -> dict[str, Any]:
        response = self._response
        kept = retained(self._items, response.context_length)
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


@dataclass
class ResponsesWriter(Writer):
    values: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the request."""
    tools: Sequence[EchoedTool] = ()
    features: tuple[ResponsesFeature, ...] = ()
    """Those of the request."""
    input: Any = None
    """The request's own, without the items of earlier turns."""
    seal_reasoning: Callable[[str], str] | None = None
    """Encrypts the reasoning, if the request asks for it."""

    async def accepted(self, model: str, client: Client) -> None:
        if client.background is not None:
            request = self.request
            response_id = request.answer_id or request.request_id
            shown = repeated(self.values, self.tools, request.tools)
            queued = response_object(response_id, int(time.time()), model, "queued", shown)
            await client.background.queue(client.owner, turn_of(queued, self.input))

    def response(
        self, answer: ChatResponse, model: str, client: Client = ANY_CLIENT
    ) -> ApiResponse:
        return Response(self, answer, model, client)

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        return in_own_words(error.body(), self.request)

    def output(self, response: ChatResponse, kind: TextKind) -> OutputItems:
        """`kind`: of the reasoning."""
        return OutputItems(response, outputs(self.features, response), kind, self.seal_reasoning)


@dataclass
class CompactWriter(ResponsesWriter):
    """Writes the response to a request that only compacts a conversation."""

    def response(
        self, answer: ChatResponse, model: str, client: Client = ANY_CLIENT
    ) -> ApiResponse:
        items = self.values.get("input")
        return CompactedResponse(answer, self.output(answer, REASONING), items or ())


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


def in_own_words(body: dict[str, Any], request: ChatRequest | None = None) -> dict[str, Any]:
    """`body`: an error in OpenAI's form. `request`: the request that failed, if it was read."""
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
