"""Write responses as chat.completion objects, and as streams of chat.completion.chunk objects. Both
are made of the same events, so they have the same content.

docs/api/chat.md describes the fields beyond OpenAI's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import proxy

import orjson

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

from ...chat.choice import ChoiceEvent, ChoiceStart, TokenIdsEvent, TokenTraces
from ...chat.response import ChatResponse, ResponseEvent
from ...features.feature import outputs
from ..shared.output import (
    data_event,
    finish_fields,
    prompt_fields,
    token_logprobs,
    with_escaped_line_ends,
)
from ..surface import ANY_CLIENT, ApiResponse, Client, Writer
from .feature import CallForm, ChatFeature, ChatOutput
from .messages import in_order_of_request


def logprobs_of(event: ChoiceEvent) -> dict[str, Any] | None:
    """Return the logprobs of an event of one choice: OpenAI's `content`; `reasoning` and
    `tool_calls` are extensions, which are left out if they are empty. None if all are.

    The tokens in `content` are those of the message's content. `tool_calls` has one entry per call.
    It includes the tokens of the envelope around the name and the arguments."""
    shaped = token_logprobs(getattr(event, "logprobs", ()))
    if not shaped:
        return None
    match event:
        case ContentDelta():
            return {"content": shaped}
        case ReasoningDelta():
            return {"content": [], "reasoning": shaped}
        case CallStart(index) | ArgumentsDelta(index) | InputDelta(index) | CallEnd(index):
            return {"content": [], "tool_calls": [{"index": index, "content": shaped}]}
    return None


def joined_logprobs(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the logprobs of several events of one choice, in the same form."""
    body: dict[str, Any] = {"content": [token for part in parts for token in part["content"]]}
    if reasoning := [token for part in parts for token in part.get("reasoning", ())]:
        body["reasoning"] = reasoning
    calls: dict[int, list[Any]] = {}
    for call in (call for part in parts for call in part.get("tool_calls", ())):
        calls.setdefault(call["index"], []).extend(call["content"])
    if calls:
        body["tool_calls"] = [{"index": at, "content": calls[at]} for at in sorted(calls)]
    return body if parts else None


Chunk = dict[str, Any]

DONE = b"data: [DONE]\n\n"
FUNCTION = CallForm("function", "arguments")


def call_form(features: Iterable[ChatOutput], start: CallStart) -> CallForm:
    forms = (feature.form(start) for feature in features)
    return next((form for form in forms if form is not None), FUNCTION)


class ChatCompletion(ApiResponse):
    """A chat.completion object, or the stream of its chunks. `model` is the name that the client
    sent."""

    def __init__(self, response: ChatResponse, writer: ChatWriter, model: str) -> None:
        self.response, self.writer = response, writer
        self.features = outputs(writer.features, response)
        head = response.head
        self._head = {
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": model,
            "system_fingerprint": head.system_fingerprint,
        }
        self._choices: dict[int, _Choice] = {}
        self._prompt_sent = False

    def shown(self, events: Iterable[ResponseEvent]) -> Iterator[Chunk]:
        """Yield chunks. The first chunk of a choice has its role, the last one its
        finish_reason."""
        for part in self._parts(events):
            yield self._chunk([part], **(self._usage() if self.writer.continuous_usage else {}))

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for _ in self._parts(events):
            pass

    def last(self) -> list[Chunk]:
        """Return the chunks without choices at the end of a stream: the usage, if the request asks
        for it."""
        return [self._chunk([], **self._usage())] if self.writer.include_usage else []

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        return server_sent(self.shown(events))

    def end(self) -> bytes:
        return server_sent(self.last()) + DONE

    def failed(self, error: Mapping[str, Any]) -> bytes:
        return data_event(orjson.dumps({"error": error}))

    def body(self) -> dict[str, Any]:
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [self._choices[at].body() for at in sorted(self._choices)],
            **self._usage(),
            **prompt_fields(self.response),
        }

    def _parts(self, events: Iterable[ResponseEvent]) -> Iterator[dict[str, Any]]:
        for each in events:
            choice = self._choices.get(each.choice)
            if choice is None:
                choice = self._choices[each.choice] = _Choice(each.choice, self)
            yield from choice.add(each.event)

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> Chunk:
        if not self._prompt_sent:
            self._prompt_sent = True
            more |= prompt_fields(self.response)
        return {**self._head, "choices": choices, **more}

    def _usage(self) -> dict[str, Any]:
        counts = self.response.counts
        return {
            "usage": {
                "prompt_tokens": counts.prompt,
                "completion_tokens": counts.completion,
                "total_tokens": counts.prompt + counts.completion,
                "prompt_tokens_details": {"cached_tokens": counts.cached},
                "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
            }
        }


def server_sent(chunks: Iterable[Chunk]) -> bytes:
    """Return the chunks as server-sent events."""
    events = b"".join([b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks])
    return with_escaped_line_ends(events)


@dataclass
class _MessageCall:
    number: int
    """Its number for the client, who does not see all calls."""
    id: str
    name: str
    form: CallForm
    arguments: list[str] = field(default_factory=list)
    """Their parts."""

    def shaped(self) -> dict[str, Any]:
        called = {"name": self.name, self.form.text: "".join(self.arguments)}
        return {"id": self.id, "type": self.form.type, self.form.type: called}


class _Choice:
    """What a choice has so far, and the parts of chunks that announce it."""

    def __init__(self, index: int, of: ChatCompletion) -> None:
        # No cycle, so that a large response is freed at once.
        self._index, self._of, self._writer = index, proxy(of), of.writer
        self._content, self._reasoning = list[str](), list[str]()
        self._calls: dict[int, _MessageCall] = {}
        self._logprobs: list[dict[str, Any]] = []
        self._token_ids: list[int] = []
        self._finish: Finish | None = None
        self._begun = False
        self._role_only = True
        """The client got its role and nothing else."""

    def add(self, event: ChoiceEvent) -> Iterator[dict[str, Any]]:
        if not self._begun:
            self._begun = True
            # The content is null if the choice starts with another event.
            content = "" if isinstance(event, ContentDelta | Finish) else None
            first: dict[str, Any] = {"role": "assistant", "content": content}
            for feature in self._of.features:
                first |= feature.at_start()
            yield self._part(first)
        elif self._role_only and isinstance(event, Finish):
            yield self._part({"content": ""})
        if any(feature.take(event) for feature in self._of.features):
            return
        if not isinstance(event, TokenTraces | ChoiceStart):
            self._role_only = False
        more: dict[str, Any] = {}
        if logprobs := logprobs_of(event):
            more["logprobs"] = logprobs
            if self._of.logged or not self._writer.request.stream:
                self._logprobs.append(logprobs)
        match event:
            case ContentDelta(text):
                self._content.append(text)
                yield self._part({"content": text}, **more)
            case ReasoningDelta(text):
                self._reasoning.append(text)
                yield self._part({"reasoning_content": text}, **more)
            case CallStart(index, name):
                form = call_form(self._of.features, event)
                call = _MessageCall(len(self._calls), self._of.response.call_id(event), name, form)
                self._calls[index], begun = call, call.shaped()
                yield self._part({"tool_calls": [{"index": call.number, **begun}]}, **more)
            case ArgumentsDelta(index, text) | InputDelta(index, text):
                self._calls[index].arguments.append(text)
                yield self._part(self._more(index, text), **more)
            case CallEnd(index) if self._writer.call_done:
                yield self._part(self._more(index, ""), **more, toolgate={"call_done": True})
            case TokenTraces(tokens):
                yield self._part({}, toolgate={"trace": [each.model_dump() for each in tokens]})
            case TokenIdsEvent(ids):
                self._token_ids += ids
                yield self._part({}, token_ids=list(ids))
            case Finish():
                self._finish = event
                last: dict[str, Any] = {}
                for feature in self._of.features:
                    last |= feature.at_end()
                yield self._part(last, **self._ended())
            case _ if more:  # the end of a call, which the next call or finish_reason implies
                yield self._part({}, **more)

    def body(self) -> dict[str, Any]:
        other = self._calls or self._reasoning
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(self._content) or (None if other else ""),
            "refusal": None,
        }
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        calls = [call.shaped() for call in self._calls.values()]
        if calls:
            message["tool_calls"] = calls
        for feature in self._of.features:
            for name, value in (*feature.at_start().items(), *feature.at_end().items()):
                message[name] = {**message.get(name, {}), **value}
        logprobs = joined_logprobs(self._logprobs)
        shaped = {"index": self._index, "message": message, "logprobs": logprobs}
        shaped |= {"finish_reason": None, **self._ended()}
        return {**shaped, "token_ids": self._token_ids} if self._token_ids else shaped

    def _ended(self) -> dict[str, Any]:
        """Return the members that report why the choice ended."""
        if (finish := self._finish) is None:
            return {}
        return {"finish_reason": finish.reason, **finish_fields(finish)}

    def _more(self, index: int, text: str) -> dict[str, Any]:
        """Return a delta that adds text to a call."""
        number, form = self._calls[index].number, self._calls[index].form
        return {"tool_calls": [{"index": number, form.type: {form.text: text}}]}

    def _part(self, delta: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"index": self._index, "delta": delta, "finish_reason": None, **more}


@dataclass
class ChatWriter(Writer):
    features: tuple[ChatFeature, ...] = ()
    """Those of the request."""
    include_usage: bool = False
    """Whether the last chunk of a stream has the usage."""
    continuous_usage: bool = False
    """Whether every chunk has the usage so far."""
    call_done: bool = False
    """Whether a stream marks the end of each call."""

    def response(
        self, answer: ChatResponse, model: str, client: Client = ANY_CLIENT
    ) -> ChatCompletion:
        return ChatCompletion(answer, self, model)

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        return in_order_of_request(error.body(), self.request.message_paths)
