"""Convert the events of a response to a chat.completion object.

The chunks of a stream are made from the same events, so both forms have the same content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallStart,
    ContentDelta,
    Finish,
    InputDelta,
    ReasoningDelta,
)

from ...chat.choice import ChoiceEvent, TokenIds
from ...chat.response import ChatResponse, ResponseEvent
from ..shared.output import finish_fields, prompt_fields
from ..surface import Stateless
from .chunks import Logprobs, event_logprobs, finish_reason, usage
from .feature import written_of


@dataclass
class _Call:
    name: str
    id: str
    custom: bool
    arguments: list[str] = field(default_factory=list)
    """The parts of the arguments, or of a custom tool's input."""

    def shaped(self) -> dict[str, Any]:
        text = "".join(self.arguments)
        if self.custom:
            return {
                "id": self.id,
                "type": "custom",
                "custom": {"name": self.name, "input": text},
            }
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": text},
        }


@dataclass
class _Choice:
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    call_id: Callable[[CallStart], str] = field(kw_only=True)
    logprobs: Logprobs = field(default_factory=Logprobs)
    token_ids: list[int] | None = None
    finish: Finish | None = None

    def add(self, event: ChoiceEvent) -> None:
        if logprobs := event_logprobs(event):
            self.logprobs.extend(logprobs)
        match event:
            case ContentDelta(text):
                self.content.append(text)
            case ReasoningDelta(text):
                self.reasoning.append(text)
            case CallStart(_, name):
                self.calls.append(_Call(name, self.call_id(event), event.custom))
            case ArgumentsDelta(_, text) | InputDelta(_, text):
                self.calls[-1].arguments.append(text)
            case TokenIds(ids):
                self.token_ids = [*(self.token_ids or ()), *ids]
            case Finish():
                self.finish = event


class WholeResponse(Stateless):
    """A chat.completion object. `model` is the name that the client sent."""

    def __init__(self, response: ChatResponse, model: str | None = None) -> None:
        self._response = response
        written = written_of(response.request)
        self._features, self._legacy = written.outputs(response), written.legacy_functions
        self._model = model or response.head.model
        self._choices: dict[int, _Choice] = {}

    def add(self, events: Iterable[ResponseEvent]) -> None:
        for response_event in events:
            choice = self._choices.get(response_event.choice)
            if choice is None:
                choice = _Choice(call_id=self._response.call_id)
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
            "logprobs": choice.logprobs.body() if choice.logprobs else None,
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
            message |= feature.whole()
        return message
