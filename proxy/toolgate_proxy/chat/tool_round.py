"""One round of a turn with tools that the gateway runs: what the model wrote, and what the client
gets of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    InputDelta,
    ReasoningDelta,
)
from toolgate_core.gateway_tools import GatewayResult

from .response import ChatResponse, ResponseEvent

CALL_EVENTS = (CallStart, ArgumentsDelta, InputDelta, CallEnd)


@dataclass
class Call:
    """A call of the round, as far as it was written."""

    start: CallStart
    arguments: list[str] = field(default_factory=list)
    complete: bool = False


@dataclass
class Round:
    """What the model wrote in one round."""

    response: ChatResponse
    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    finish: ResponseEvent | None = None
    """The end of the round, which the client gets only if it ends the response."""

    @property
    def own_calls(self) -> list[Call]:
        """The complete calls of tools that the gateway runs."""
        tools = self.response.sent.gateway_tools
        return [call for call in self.calls if call.complete and call.start.name in tools]

    @property
    def goes_on(self) -> bool:
        """Whether the gateway ran all calls, so that the turn is not over."""
        return bool(self.calls) and len(self.own_calls) == len(self.calls)

    @property
    def only_hidden(self) -> bool:
        """Whether the client sees no call of the round."""
        return all(self._hides(call) for call in self.calls)

    def _hides(self, call: Call) -> bool:
        return call.start.name in self.response.sent.hidden_tools

    def note(self, events: Iterable[ResponseEvent]) -> list[ResponseEvent]:
        """Return the events without the end, which is kept, without reasoning that the client does
        not want, and without hidden calls."""
        shown = self.response.request.include_reasoning
        passed: list[ResponseEvent] = []
        for each in events:
            match each.event:
                case Finish() as finish:
                    if self.calls and self._hides(self.calls[-1]):
                        finish = replace(finish, call=None)
                    self.finish = ResponseEvent(each.choice, finish)
                    continue
                case ReasoningDelta(text):
                    self.reasoning.append(text)
                    if not shown:
                        continue
                case ContentDelta(text):
                    self.content.append(text)
                case CallStart() as start:
                    self.calls.append(Call(start))
                case ArgumentsDelta(_, text):
                    self.calls[-1].arguments.append(text)
                case CallEnd():
                    self.calls[-1].complete = True
            if isinstance(each.event, CALL_EVENTS) and self._hides(self.calls[-1]):
                continue
            passed.append(each)
        return passed

    def messages(self, results: Iterable[GatewayResult]) -> list[dict[str, Any]]:
        """Return the messages that show the round to the model."""
        ids = [self.response.call_id(call.start) for call in self.calls]
        calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.start.name, "arguments": "".join(call.arguments)},
            }
            for call_id, call in zip(ids, self.calls, strict=True)
        ]
        turn = {"role": "assistant", "content": "".join(self.content) or None, "tool_calls": calls}
        if self.reasoning:
            turn["reasoning_content"] = "".join(self.reasoning)
        shown = [
            {"role": "tool", "tool_call_id": call_id, "content": result.content}
            for call_id, result in zip(ids, results, strict=True)
        ]
        return [turn, *shown]
