"""Convert the events of a response to chat.completion.chunk objects and to server-sent events.

docs/api/chat.md describes the fields beyond OpenAI's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from toolgate_core import wire
from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    Finish,
    InputDelta,
    ReasoningDelta,
)

from ...chat.choice import ChoiceEvent, ChoiceStarted, TokenIds, Traced
from ...chat.response import ChatResponse, ResponseEvent, TokenCounts
from ..shared.output import finish_fields, prompt_fields, token_logprobs, with_escaped_line_ends
from .feature import written_of

Tokens = list[wire.TokenLogprob]


@dataclass
class Logprobs:
    """The logprobs of one choice: OpenAI's `content`; `reasoning` and `tool_calls` are extensions.

    The tokens in `content` are those of the message's content. `tool_calls` has one entry per call.
    It includes the tokens of the envelope around the name and the arguments."""

    content: Tokens = field(default_factory=list)
    reasoning: Tokens = field(default_factory=list)
    calls: dict[int, Tokens] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.content or self.reasoning or self.calls)

    def extend(self, more: Logprobs) -> None:
        self.content += more.content
        self.reasoning += more.reasoning
        for index, tokens in more.calls.items():
            self.calls.setdefault(index, []).extend(tokens)

    def body(self) -> dict[str, Any]:
        """The JSON form. `reasoning` and `tool_calls` are left out if they are empty."""
        body: dict[str, Any] = {"content": token_logprobs(self.content)}
        if self.reasoning:
            body["reasoning"] = token_logprobs(self.reasoning)
        if self.calls:
            body["tool_calls"] = [
                {"index": index, "content": token_logprobs(tokens)}
                for index, tokens in sorted(self.calls.items())
            ]
        return body


def event_logprobs(event: Event | object) -> Logprobs | None:
    """The logprobs of one event, or None if it has none."""
    match event:
        case ContentDelta(_, logprobs) if logprobs:
            return Logprobs(content=list(logprobs))
        case ReasoningDelta(_, logprobs) if logprobs:
            return Logprobs(reasoning=list(logprobs))
        case (
            CallStart(index, _, logprobs)
            | ArgumentsDelta(index, _, logprobs)
            | InputDelta(index, _, logprobs)
            | CallEnd(index, logprobs)
        ) if logprobs:
            return Logprobs(calls={index: list(logprobs)})
        case _:
            return None


def finish_reason(finish: Finish, *, legacy: bool) -> str:
    return "function_call" if legacy and finish.reason == "tool_calls" else finish.reason


def usage(counts: TokenCounts) -> dict[str, Any]:
    return {
        "prompt_tokens": counts.prompt,
        "completion_tokens": counts.completion,
        "total_tokens": counts.prompt + counts.completion,
        "prompt_tokens_details": {"cached_tokens": counts.cached},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
    }


Chunk = dict[str, Any]

DONE = b"data: [DONE]\n\n"


class Chunks:
    """The chunks of one response. The first chunk of a choice has its role, the last one its
    finish_reason. `model` is the name that the client sent."""

    def __init__(self, response: ChatResponse, model: str | None = None) -> None:
        self._response = response
        written = written_of(response.request)
        self._features, self._legacy = written.outputs(response), written.legacy_functions
        head = response.head
        self._head = {
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": model or head.model,
            "system_fingerprint": head.system_fingerprint,
        }
        self._continuous_usage, self._call_done = written.continuous_usage, written.call_done
        self._custom: set[tuple[int, int]] = set()
        """Calls of custom tools: the choice, and the call's index in it."""
        self._numbers: dict[tuple[int, int], int] = {}
        """The numbers of the calls of each choice. The client does not see all calls."""
        self._started: set[int] = set()
        self._role_only: set[int] = set()
        """Choices that have sent their role and nothing else."""
        self._prompt_sent = False

    def from_events(self, events: Iterable[ResponseEvent]) -> Iterator[Chunk]:
        for response_event in events:
            choice, event = response_event.choice, response_event.event
            if choice not in self._started:
                self._started.add(choice)
                self._role_only.add(choice)
                first = _first_delta(event)
                for feature in self._features:
                    first |= feature.at_start()
                yield self._chunk(choice, first)
            elif choice in self._role_only and isinstance(event, Finish):
                yield self._chunk(choice, {"content": ""})
            if any(feature.take(event) for feature in self._features):
                continue
            if not isinstance(event, Traced | ChoiceStarted):
                self._role_only.discard(choice)
            logprobs = event_logprobs(event) if getattr(event, "logprobs", None) else None
            if isinstance(event, CallStart):
                number = sum(at == choice for at, _ in self._numbers)
                self._numbers[choice, event.index] = number
                if event.custom:
                    self._custom.add((choice, event.index))
            match event:
                case CallEnd(index) if self._call_done:
                    last, done = self._last_delta(choice, index), {"call_done": True}
                    yield self._chunk(choice, last, logprobs=logprobs, toolgate=done)
                case Traced(tokens):
                    trace = [token.model_dump() for token in tokens]
                    yield self._chunk(choice, {}, toolgate={"trace": trace})
                case TokenIds(ids):
                    yield self._chunk(choice, {}, token_ids=list(ids))
                case Finish() as finish:
                    reason = finish_reason(finish, legacy=self._legacy)
                    last_delta: dict[str, Any] = {}
                    for feature in self._features:
                        last_delta |= feature.at_end()
                    yield self._chunk(choice, last_delta, reason, **finish_fields(finish))
                case _ if (delta := self._delta(choice, event)) is not None:
                    yield self._chunk(choice, delta, logprobs=logprobs)
                case _ if logprobs:
                    yield self._chunk(choice, {}, logprobs=logprobs)

    def usage(self) -> Chunk:
        """The last chunk of a stream with `include_usage`."""
        return self._body([], usage=usage(self._response.counts))

    def last(self) -> Iterator[Chunk]:
        """Yield the chunks without choices at the end of a stream: the usage, if the request asks
        for it."""
        if self._response.request.include_usage:
            yield self.usage()

    def _delta(self, choice: int, event: ChoiceEvent) -> dict[str, Any] | None:
        match event:
            case ContentDelta(text):
                return {"content": text}
            case ReasoningDelta(text):
                return {"reasoning_content": text}
            case CallStart(_, name) if self._legacy:
                return {"function_call": {"name": name, "arguments": ""}}
            case CallStart(index, name, custom=True):
                custom = {"name": name, "input": ""}
                call = {"id": self._response.call_id(event), "type": "custom", "custom": custom}
                return self._of_call(choice, index, call)
            case CallStart(index, name):
                function = {"name": name, "arguments": ""}
                call_id = self._response.call_id(event)
                call = {"id": call_id, "type": "function", "function": function}
                return self._of_call(choice, index, call)
            case ArgumentsDelta(_, text) if self._legacy:
                return {"function_call": {"arguments": text}}
            case ArgumentsDelta(index, text):
                return self._of_call(choice, index, {"function": {"arguments": text}})
            case InputDelta(index, text):
                return self._of_call(choice, index, {"custom": {"input": text}})
            case _:
                return None  # CallEnd: unless asked for, the next call or finish_reason implies it

    def _last_delta(self, choice: int, index: int) -> dict[str, Any]:
        """A delta that adds nothing to a call."""
        if self._legacy:
            return {"function_call": {"arguments": ""}}
        if (choice, index) in self._custom:
            return self._of_call(choice, index, {"custom": {"input": ""}})
        return self._of_call(choice, index, {"function": {"arguments": ""}})

    def _of_call(self, choice: int, index: int, call: dict[str, Any]) -> dict[str, Any]:
        number = self._numbers.get((choice, index), index)
        return {"tool_calls": [{"index": number, **call}]}

    def _chunk(
        self,
        choice: int,
        delta: dict[str, Any],
        finish_reason: str | None = None,
        *,
        logprobs: Logprobs | None = None,
        **extensions: Any,
    ) -> Chunk:
        shaped: dict[str, Any] = {"index": choice, "delta": delta, "finish_reason": finish_reason}
        if logprobs:
            shaped["logprobs"] = logprobs.body()
        if extensions:
            shaped |= extensions
        if self._continuous_usage:
            return self._body([shaped], usage=usage(self._response.counts))
        return self._body([shaped])

    def _body(self, choices: list[dict[str, Any]], **more: Any) -> Chunk:
        if not self._prompt_sent:
            self._prompt_sent = True
            more |= prompt_fields(self._response)
        return {**self._head, "choices": choices, **more}


def server_sent(chunks: Iterable[Chunk]) -> bytes:
    """The chunks as server-sent events."""
    events = b"".join([b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks])
    return with_escaped_line_ends(events)


def _first_delta(event: ChoiceEvent) -> dict[str, Any]:
    """The first delta of a choice. Its content is null if the choice starts with another event."""
    return {
        "role": "assistant",
        "content": "" if isinstance(event, ContentDelta | Finish) else None,
    }
