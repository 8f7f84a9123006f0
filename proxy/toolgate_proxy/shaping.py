"""Wire events → pieces of an answer → OpenAI's chunks, or OpenAI's whole answer.

Both shapes are made of the same pieces, so a streamed answer and a collected one can't differ.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from litellm.types.utils import (
    ChatCompletionDeltaToolCall,
    Choices,
    Delta,
    Function,
    Message,
    ModelResponse,
    ModelResponseStream,
    StreamingChoices,
    Usage,
)

from toolgate_core import wire
from toolgate_core.segmenter import (
    ArgumentsDelta,
    CallStart,
    ContentDelta,
    Event,
    Finish,
    ReasoningDelta,
)

from .answer import Head, Piece, TokenCounts

CALL_ID_ALPHABET = string.ascii_letters + string.digits


class Chunks:
    """Pieces → chunks. Every choice opens with its role and closes with its finish_reason."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._opened: set[int] = set()

    def of(self, pieces: Iterable[Piece]) -> Iterator[ModelResponseStream]:
        for piece in pieces:
            if piece.choice not in self._opened:
                self._opened.add(piece.choice)
                yield self._chunk(piece.choice, _opening(piece.event))
            match piece.event:
                case Finish(reason):
                    yield self._chunk(piece.choice, Delta(), finish_reason=reason)
                case ContentDelta(text, logprobs):
                    yield self._chunk(piece.choice, Delta(content=text), logprobs=logprobs)
                case event if (delta := _delta(event)) is not None:
                    yield self._chunk(piece.choice, delta)

    def opens_or_varies(self, piece: Piece) -> bool:
        """Whether a text's chunk differs from others of its kind in more than its text."""
        said_more = isinstance(piece.event, ContentDelta) and bool(piece.event.logprobs)
        return piece.choice not in self._opened or said_more

    def usage(self, counts: TokenCounts) -> ModelResponseStream:
        """The last chunk of a stream whose client asked for include_usage."""
        return ModelResponseStream(choices=[], usage=_usage(counts), **vars(self._head))

    def _chunk(
        self,
        choice: int,
        delta: Delta,
        *,
        finish_reason: str | None = None,
        logprobs: tuple[wire.TokenLogprob, ...] = (),
    ) -> ModelResponseStream:
        shaped = StreamingChoices(
            index=choice,
            delta=delta,
            finish_reason=finish_reason,
            logprobs={"content": _logprobs(logprobs)} if logprobs else None,
        )
        return ModelResponseStream(choices=[shaped], **vars(self._head))


@dataclass
class _Call:
    name: str
    id: str
    arguments: list[str] = field(default_factory=list)


@dataclass
class _Choice:
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    logprobs: list[wire.TokenLogprob] = field(default_factory=list)
    finish_reason: str | None = None

    def add(self, event: Event) -> None:
        match event:
            case ContentDelta(text, logprobs):
                self.content.append(text)
                self.logprobs.extend(logprobs)
            case ReasoningDelta(text):
                self.reasoning.append(text)
            case CallStart(_, name):
                self.calls.append(_Call(name, new_call_id()))
            case ArgumentsDelta(_, text):
                self.calls[-1].arguments.append(text)
            case Finish(reason):
                self.finish_reason = reason


class WholeAnswer:
    """Pieces → the answer as one object."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._choices: dict[int, _Choice] = {}

    def add(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            self._choices.setdefault(piece.choice, _Choice()).add(piece.event)

    def response(self, counts: TokenCounts) -> ModelResponse:
        choices = [self._shaped(at, self._choices[at]) for at in sorted(self._choices)]
        return ModelResponse(choices=choices, usage=_usage(counts), **vars(self._head))

    def _shaped(self, index: int, choice: _Choice) -> Choices:
        said_otherwise = choice.calls or choice.reasoning
        message = Message(
            content="".join(choice.content) or (None if said_otherwise else ""),
            reasoning_content="".join(choice.reasoning) or None,
            tool_calls=[_whole_call(call) for call in choice.calls] or None,
        )
        return Choices(
            index=index,
            message=message,
            finish_reason=choice.finish_reason,
            logprobs={"content": _logprobs(choice.logprobs)} if choice.logprobs else None,
        )


def new_call_id() -> str:
    return "call_" + "".join(secrets.choice(CALL_ID_ALPHABET) for _ in range(24))


def _opening(event: Event) -> Delta:
    """The first delta of a choice. Its content is "", but null where something else comes first."""
    return Delta(role="assistant", content="" if isinstance(event, ContentDelta | Finish) else None)


def _delta(event: Event) -> Delta | None:
    match event:
        case ReasoningDelta(text):
            return Delta(reasoning_content=text)
        case CallStart(index, name):
            function = Function(name=name, arguments="")
            call = ChatCompletionDeltaToolCall(
                index=index, id=new_call_id(), type="function", function=function
            )
            return Delta(tool_calls=[call])
        case ArgumentsDelta(index, text):
            call = ChatCompletionDeltaToolCall(index=index, function=Function(arguments=text))
            return Delta(tool_calls=[call])
        case _:
            return None  # CallEnd: what it says, the next call or the finish says again


def _whole_call(call: _Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": "".join(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _usage(counts: TokenCounts) -> Usage:
    return Usage(
        prompt_tokens=counts.prompt,
        completion_tokens=counts.completion,
        total_tokens=counts.prompt + counts.completion,
        prompt_tokens_details={"cached_tokens": counts.cached},
        completion_tokens_details={"reasoning_tokens": counts.reasoning},
    )


def _logprobs(logprobs: Iterable[wire.TokenLogprob]) -> list[dict[str, Any]]:
    return [
        {**_logprob(token), "top_logprobs": [_logprob(top) for top in token.top]}
        for token in logprobs
    ]


def _logprob(token: wire.TopLogprob) -> dict[str, Any]:
    return {"token": token.token, "logprob": token.logprob, "bytes": list(token.bytes)}
