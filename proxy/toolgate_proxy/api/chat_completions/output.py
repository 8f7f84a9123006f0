"""Write responses as chat.completion objects, and as streams of chat.completion.chunk objects. Both
are made of the same events, so they have the same content.

docs/api/chat.md describes the fields beyond OpenAI's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from toolgate_core import wire
from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    InputDelta,
    ReasoningDelta,
)
from toolgate_core.errors import ToolgateError

from ...chat.choice import ChoiceEvent, ChoiceStarted, TokenIds, Traced
from ...chat.response import ChatResponse, ResponseEvent, TokenCounts
from ...features.feature import outputs
from ..shared.output import (
    data_event,
    finish_fields,
    prompt_fields,
    token_logprobs,
    with_escaped_line_ends,
)
from ..surface import ANY_CLIENT, Client, Stream, Whole, Writer
from .feature import CallForm, ChatFeature, Output
from .messages import in_order_of_request


def logprobs_of(events: Iterable[ChoiceEvent]) -> dict[str, Any] | None:
    """Return the logprobs of events of one choice: OpenAI's `content`; `reasoning` and `tool_calls`
    are extensions, which are left out if they are empty. None if all are.

    The tokens in `content` are those of the message's content. `tool_calls` has one entry per call.
    It includes the tokens of the envelope around the name and the arguments."""
    content, reasoning = list[wire.TokenLogprob](), list[wire.TokenLogprob]()
    calls: dict[int, list[wire.TokenLogprob]] = {}
    for event in events:
        match event:
            case ContentDelta(_, tokens):
                content += tokens
            case ReasoningDelta(_, tokens):
                reasoning += tokens
            case (
                CallStart(index, _, tokens)
                | ArgumentsDelta(index, _, tokens)
                | InputDelta(index, _, tokens)
                | CallEnd(index, tokens)
            ) if tokens:
                calls.setdefault(index, []).extend(tokens)
    body: dict[str, Any] = {"content": token_logprobs(content)}
    if reasoning:
        body["reasoning"] = token_logprobs(reasoning)
    if calls:
        body["tool_calls"] = [
            {"index": index, "content": token_logprobs(calls[index])} for index in sorted(calls)
        ]
    return body if content or reasoning or calls else None


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
FUNCTION = CallForm("function", "arguments")


def call_form(features: Iterable[Output], start: CallStart) -> CallForm:
    found = (feature.form(start) for feature in features)
    return next((form for form in found if form is not None), FUNCTION)


class Chunks:
    """The chunks of one response. The first chunk of a choice has its role, the last one its
    finish_reason. `model` is the name that the client sent."""

    def __init__(
        self, response: ChatResponse, writer: ChatWriter, model: str | None = None
    ) -> None:
        self._response, self._writer = response, writer
        self._features = outputs(writer.features, response)
        head = response.head
        self._head = {
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": model or head.model,
            "system_fingerprint": head.system_fingerprint,
        }
        self._calls: dict[tuple[int, int], tuple[int, CallForm]] = {}
        """The numbers and forms of the calls, by choice and the index of the call in it. The client
        does not see all calls."""
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
            logprobs = logprobs_of([event]) if getattr(event, "logprobs", None) else None
            if isinstance(event, CallStart):
                number = sum(at == choice for at, _ in self._calls)
                self._calls[choice, event.index] = number, call_form(self._features, event)
            match event:
                case CallEnd(index) if self._writer.call_done:
                    last, done = self._more(choice, index, ""), {"call_done": True}
                    yield self._chunk(choice, last, logprobs=logprobs, toolgate=done)
                case Traced(tokens):
                    trace = [token.model_dump() for token in tokens]
                    yield self._chunk(choice, {}, toolgate={"trace": trace})
                case TokenIds(ids):
                    yield self._chunk(choice, {}, token_ids=list(ids))
                case Finish() as finish:
                    reason = finish_reason(finish, legacy=self._writer.legacy)
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
        if self._writer.include_usage:
            yield self.usage()

    def _delta(self, choice: int, event: ChoiceEvent) -> dict[str, Any] | None:
        match event:
            case ContentDelta(text):
                return {"content": text}
            case ReasoningDelta(text):
                return {"reasoning_content": text}
            case CallStart(index, name):
                number, form = self._calls[choice, index]
                called = {"name": name, form.text: ""}
                if self._writer.legacy:
                    return {"function_call": called}
                call = {"id": self._response.call_id(event), "type": form.type, form.type: called}
                return {"tool_calls": [{"index": number, **call}]}
            case ArgumentsDelta(index, text) | InputDelta(index, text):
                return self._more(choice, index, text)
            case _:
                return None  # CallEnd: unless asked for, the next call or finish_reason implies it

    def _more(self, choice: int, index: int, text: str) -> dict[str, Any]:
        """A delta that adds text to a call."""
        number, form = self._calls.get((choice, index), (index, FUNCTION))
        if self._writer.legacy:
            return {"function_call": {form.text: text}}
        return {"tool_calls": [{"index": number, form.type: {form.text: text}}]}

    def _chunk(
        self,
        choice: int,
        delta: dict[str, Any],
        finish_reason: str | None = None,
        *,
        logprobs: dict[str, Any] | None = None,
        **extensions: Any,
    ) -> Chunk:
        shaped: dict[str, Any] = {"index": choice, "delta": delta, "finish_reason": finish_reason}
        if logprobs:
            shaped["logprobs"] = logprobs
        if extensions:
            shaped |= extensions
        if self._writer.continuous_usage:
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


@dataclass
class _Call:
    name: str
    id: str
    form: CallForm
    arguments: list[str] = field(default_factory=list)
    """Their parts."""

    def shaped(self) -> dict[str, Any]:
        called = {"name": self.name, self.form.text: "".join(self.arguments)}
        return {"id": self.id, "type": self.form.type, self.form.type: called}


@dataclass
class _Choice:
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    call_id: Callable[[CallStart], str] = field(kw_only=True)
    form: Callable[[CallStart], CallForm] = field(kw_only=True)
    with_logprobs: list[ChoiceEvent] = field(default_factory=list)
    token_ids: list[int] | None = None
    finish: Finish | None = None

    def add(self, event: ChoiceEvent) -> None:
        if getattr(event, "logprobs", None):
            self.with_logprobs.append(event)
        match event:
            case ContentDelta(text):
                self.content.append(text)
            case ReasoningDelta(text):
                self.reasoning.append(text)
            case CallStart(_, name):
                self.calls.append(_Call(name, self.call_id(event), self.form(event)))
            case ArgumentsDelta(_, text) | InputDelta(_, text):
                self.calls[-1].arguments.append(text)
            case TokenIds(ids):
                self.token_ids = [*(self.token_ids or ()), *ids]
            case Finish():
                self.finish = event


class WholeResponse(Whole):
    """A chat.completion object. `model` is the name that the client sent."""

    def __init__(
        self, response: ChatResponse, writer: ChatWriter, model: str | None = None
    ) -> None:
        self._response, self._legacy = response, writer.legacy
        self._features = outputs(writer.features, response)
        self._model = model or response.head.model
        self._choices: dict[int, _Choice] = {}

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for response_event in events:
            choice = self._choices.get(response_event.choice)
            if choice is None:
                form = partial(call_form, self._features)
                choice = _Choice(call_id=self._response.call_id, form=form)
                self._choices[response_event.choice] = choice
            if not any(each.take(response_event.event) for each in self._features):
                choice.add(response_event.event)

    def body(self) -> dict[str, Any]:
        response = self._response
        return {
            "id": response.head.id,
            "object": "chat.completion",
            "created": response.head.created,
            "model": self._model,
            "system_fingerprint": response.head.system_fingerprint,
            "choices": [self._shaped(at, self._choices[at]) for at in sorted(self._choices)],
            "usage": usage(response.counts),
            **prompt_fields(response),
        }

    def _shaped(self, index: int, choice: _Choice) -> dict[str, Any]:
        reason = finish_reason(choice.finish, legacy=self._legacy) if choice.finish else None
        shaped: dict[str, Any] = {
            "index": index,
            "message": self._message(choice),
            "logprobs": logprobs_of(choice.with_logprobs),
            "finish_reason": reason,
        }
        if choice.finish is not None:
            shaped |= finish_fields(choice.finish)
        if choice.token_ids is not None:
            shaped["token_ids"] = choice.token_ids
        return shaped

    def _message(self, choice: _Choice) -> dict[str, Any]:
        other = choice.calls or choice.reasoning
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(choice.content) or (None if other else ""),
            "refusal": None,
        }
        if choice.reasoning:
            message["reasoning_content"] = "".join(choice.reasoning)
        if choice.calls and self._legacy:
            message["function_call"] = choice.calls[0].shaped()["function"]
        elif choice.calls:
            message["tool_calls"] = [call.shaped() for call in choice.calls]
        for feature in self._features:
            for name, value in (*feature.at_start().items(), *feature.at_end().items()):
                message[name] = {**message.get(name, {}), **value}
        return message


class ChatCompletionStream(Stream):
    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        return server_sent(self._chunks.from_events(events))

    def end(self) -> bytes:
        return server_sent(self._chunks.last()) + DONE

    def failed(self, error: Mapping[str, Any]) -> bytes:
        return data_event(orjson.dumps({"error": error}))


@dataclass
class ChatWriter(Writer):
    features: tuple[ChatFeature, ...] = ()
    """Those of the request."""
    legacy: bool = False
    """Whether the request has `functions` instead of `tools`. The response then has a
    `function_call`."""
    include_usage: bool = False
    """Whether the last chunk of a stream has the usage."""
    continuous_usage: bool = False
    """Whether every chunk has the usage so far."""
    call_done: bool = False
    """Whether a stream marks the end of each call."""

    def chunks(self, response: ChatResponse, model: str | None = None) -> Chunks:
        return Chunks(response, self, model)

    def stream(
        self, response: ChatResponse, model: str, client: Client = ANY_CLIENT
    ) -> ChatCompletionStream:
        return ChatCompletionStream(self.chunks(response, model))

    def whole(
        self, response: ChatResponse, model: str | None = None, client: Client = ANY_CLIENT
    ) -> WholeResponse:
        return WholeResponse(response, self, model)

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        return in_order_of_request(error.body(), self.request.message_paths)
