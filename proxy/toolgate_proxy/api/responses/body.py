"""The response object: the items that events become, and the fields of the request
that it repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    InputDelta,
    ReasoningDelta,
)
from toolgate_core.tools import Tool

from ...chat.choice import FeatureEvent, GatewayCallRan, TokenIdsEvent
from ...chat.response import ChatResponse, ResponseEvent, TokenCounts
from ..shared.tools import EchoedTool
from .feature import ResponsesOutput
from .output_items import (
    FUNCTION,
    MESSAGE,
    CallItem,
    CallKind,
    ClientCallItem,
    Event,
    Item,
    TextItem,
    TextKind,
)
from .tools import offered

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed"]


class OutputItems:
    """The items of one response. A stream sends the events that announce them, and a complete
    response has the items, so the two cannot differ. `kind`: of the reasoning, `seal`: encrypts
    it."""

    def __init__(
        self,
        response: ChatResponse,
        features: list[ResponsesOutput],
        kind: TextKind,
        seal: Callable[[str], str] | None,
    ) -> None:
        self._response = response
        self._features = features
        self._reasoning, self._seal = kind, seal
        self._items: list[Item] = []
        self._first = [item for each in self._features for item in each.first()]
        """The items that are before everything else."""
        self._running: dict[int, CallItem] = {}
        """The calls that the gateway runs, by their indexes."""
        self._open: TextItem | CallItem | None = None
        self.finish: Finish | None = None
        self.token_ids: list[int] = []

    def items(self) -> list[dict[str, Any]]:
        return [item.body() for item in self._items]

    def add(self, events: Iterable[ResponseEvent]) -> Iterator[Event]:
        while self._first:
            yield from self._add(self._first.pop(0))
        for each in events:
            match each.event:
                case ReasoningDelta() as delta if delta.text or self._is_open(self._reasoning):
                    yield from self._add_text(self._reasoning, delta)
                case ContentDelta() as delta:
                    yield from self._add_text(MESSAGE, delta)
                case CallStart() as start:
                    yield from self._close()
                    call = self._call(start)
                    if call.runs:
                        self._running[start.index] = call
                    yield from self._begin(call)
                case ArgumentsDelta() | InputDelta() as delta:
                    assert isinstance(self._open, CallItem)
                    yield from self._open.add(delta)
                case CallEnd():
                    assert isinstance(self._open, CallItem)
                    yield from self._open.end()
                    self._open = None
                case GatewayCallRan(start, shown) if start.index in self._running:
                    yield from self._running.pop(start.index).ran(shown)
                case GatewayCallRan() | FeatureEvent() as event:
                    for feature in self._features:
                        if (item := feature.item(event)) is not None:
                            yield from self._add(item)
                case TokenIdsEvent(ids):
                    self.token_ids += ids
                case Finish() as finish:
                    yield from self._finish(finish)

    def _call(self, start: CallStart) -> CallItem:
        call_id = self._response.call_id(start)
        for feature in self._features:
            if (call := feature.call(start, call_id)) is not None:
                return call
        return call_item(self._response, start, call_id, FUNCTION)

    def interrupt(self) -> None:
        """Mark the open item as incomplete, after an error."""
        if isinstance(self._open, CallItem) and not self._open.announced:
            self._items.pop()  # no event has announced it
        elif self._open is not None:
            self._open.status = "incomplete"
        self._open = None

    def _finish(self, finish: Finish) -> Iterator[Event]:
        self.finish = finish
        if isinstance(self._open, CallItem):
            self.interrupt()  # cut: no event says that it ended
        if not self._items:
            yield from self._begin(TextItem(MESSAGE))
        yield from self._close(incomplete=finish.reason == "length")

    def _add_text(self, kind: TextKind, delta: ContentDelta | ReasoningDelta) -> Iterator[Event]:
        if not self._is_open(kind):
            yield from self._close()
            item = TextItem(kind)
            if kind is MESSAGE:
                item.annotate = self._annotations
            else:
                item.seal = self._seal
            yield from self._begin(item)
        assert isinstance(self._open, TextItem)
        yield from self._open.add(delta)

    def _is_open(self, kind: TextKind) -> bool:
        return isinstance(self._open, TextItem) and self._open.kind is kind

    def _annotations(self, text: str) -> Iterator[Event]:
        for feature in self._features:
            yield from feature.annotations(text)

    def _begin(self, item: TextItem | CallItem) -> Iterator[Event]:
        self._open = item
        yield from self._add(item)

    def _add(self, item: Item) -> Iterator[Event]:
        item.response_id, item.index = self._response.head.id, len(self._items)
        self._items.append(item)
        yield from item.begin()

    def _close(self, *, incomplete: bool = False) -> Iterator[Event]:
        if isinstance(self._open, TextItem):
            yield from self._open.end("incomplete" if incomplete else "completed")
        self._open = None


def call_item(
    response: ChatResponse, start: CallStart, call_id: str, kind: CallKind
) -> ClientCallItem:
    """Return the item of a call of a client's tool."""
    tools = response.sent.tools  # with those that a search has found
    namespace = next((tool.namespace for tool in tools if tool.name == start.name), "")
    name = start.name.removeprefix(f"{namespace}.") if namespace else start.name
    return ClientCallItem(kind, name, call_id, namespace)


def response_object(
    response_id: str,
    created: int,
    model: str,
    status: Status,
    repeated: Mapping[str, Any],
    output: Sequence[Any] = (),
) -> dict[str, Any]:
    """Return a response that has no error and no usage so far. `repeated`: what it repeats of the
    request."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "completed_at": None,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [*output],
        **repeated,
        "usage": None,
    }


def failure(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return the member `error` of a response. `error`: the error object, with `code` and
    `message`."""
    return {"error": {"code": error["code"], "message": error["message"]}}


def is_summarized(repeated: Mapping[str, Any]) -> bool:
    """Return whether the request asks for a summary of the reasoning."""
    return _summary(repeated) is not None


def _summary(repeated: Mapping[str, Any]) -> str | None:
    reasoning = repeated.get("reasoning", {})
    summary: str | None = reasoning.get("summary") or reasoning.get("generate_summary")
    return None if summary == "none" else summary


def repeated(
    parameters: Mapping[str, Any], shown: Iterable[EchoedTool] = (), tools: Iterable[Tool] = ()
) -> dict[str, Any]:
    """Return what a response repeats of the parameters of its request, with the defaults of
    OpenAI's API. `shown`: the tools as the response repeats them, if they are among `tools`, which
    the model is offered."""
    text = parameters.get("text", {})
    return {
        "background": parameters.get("background", False),
        "instructions": parameters.get("instructions"),
        "max_output_tokens": parameters.get("max_output_tokens"),
        "max_tool_calls": parameters.get("max_tool_calls"),
        "parallel_tool_calls": parameters.get("parallel_tool_calls", True),
        "previous_response_id": parameters.get("previous_response_id"),
        "prompt": None,
        "prompt_cache_key": parameters.get("prompt_cache_key"),
        "prompt_cache_retention": parameters.get("prompt_cache_retention"),
        "reasoning": {
            "effort": parameters.get("reasoning", {}).get("effort"),
            "summary": _summary(parameters),
        },
        "safety_identifier": parameters.get("safety_identifier"),
        "service_tier": "default",
        "store": parameters.get("store", True),
        "temperature": parameters.get("temperature", 1.0),
        "text": {
            "format": _format(text.get("format", {"type": "text"})),
            "verbosity": text.get("verbosity", "medium"),
        },
        "tool_choice": _choice(parameters.get("tool_choice", "auto")),
        "tools": offered(shown, {tool.name for tool in tools}),
        "top_logprobs": parameters.get("top_logprobs", 0),
        "top_p": parameters.get("top_p", 1.0),
        "presence_penalty": parameters.get("presence_penalty", 0.0),
        "frequency_penalty": parameters.get("frequency_penalty", 0.0),
        "truncation": parameters.get("truncation", "disabled"),
        "user": parameters.get("user"),
        "metadata": parameters.get("metadata", {}),
    }


def _choice(choice: Any) -> Any:
    """Return a choice in the form of this API."""
    inner = choice.get(choice["type"]) if isinstance(choice, dict) else None
    flat = {"type": choice["type"], **inner} if isinstance(inner, dict) else choice
    if isinstance(flat, dict) and "tools" in flat:
        return {**flat, "tools": [*map(_choice, flat["tools"])]}
    return flat


def _format(form: Mapping[str, Any]) -> dict[str, Any]:
    if form.get("type") != "json_schema":
        return dict(form)
    return {"description": None, "strict": False, **form}


def usage_of(counts: TokenCounts) -> dict[str, Any]:
    return {
        "input_tokens": counts.prompt,
        # Nothing is billed for writing to the cache.
        "input_tokens_details": {"cached_tokens": counts.cached, "cache_write_tokens": 0},
        "output_tokens": counts.completion,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.prompt + counts.completion,
    }
