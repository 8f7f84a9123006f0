"""The logprobs of a choice: OpenAI's `content`, and the extensions `reasoning` and `tool_calls`.

The tokens in `content` are those of the message's content. `tool_calls` has one entry per call. It
includes the tokens of the envelope around the name and the arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from toolgate_core import wire
from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    InputDelta,
    ReasoningDelta,
)

Tokens = list[wire.TokenLogprob]


@dataclass
class Logprobs:
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
        body: dict[str, Any] = {"content": _tokens(self.content)}
        if self.reasoning:
            body["reasoning"] = _tokens(self.reasoning)
        if self.calls:
            body["tool_calls"] = [
                {"index": index, "content": _tokens(tokens)}
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


def _tokens(logprobs: Iterable[wire.TokenLogprob]) -> list[dict[str, Any]]:
    return [
        {**_logprob(token), "top_logprobs": [_logprob(top) for top in token.top]}
        for token in logprobs
    ]


def _logprob(token: wire.TopLogprob) -> dict[str, Any]:
    return {"token": token.token, "logprob": token.logprob, "bytes": list(token.bytes)}
