"""Fields that occur in chunks and in whole responses: logprobs, usage and `finish_reason`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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

from ...chat.response import TokenCounts
from ..shared.response_fields import token_logprobs

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
