"""Pieces of an answer → OpenAI's chunks, or OpenAI's whole answer.

Both shapes are made of the same pieces, so a streamed answer and a collected one can't differ.
Fields beyond OpenAI's are described in docs/answers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from litellm.types.utils import (
    ChatCompletionDeltaToolCall,
    Choices,
    Delta,
    Function,
    FunctionCall,
    Message,
    ModelResponse,
    ModelResponseStream,
    StreamingChoices,
    Usage,
)

from toolgate_core.deltas import ArgumentsDelta, CallStart, ContentDelta, Finish, ReasoningDelta

from ...chat.answer import Answer, Piece, TokenCounts
from ...chat.choice import Begun, Said, TokenIds
from .logprobs import Logprobs, logprobs_of


class Chunks:
    """Pieces → chunks. Every choice opens with its role and closes with its finish_reason."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._legacy = answer.request.legacy_functions
        self._opened: set[int] = set()
        self._silent: set[int] = set()
        """Choices of which there is a role and nothing else."""
        self._prompt_told = False

    def of(self, pieces: Iterable[Piece]) -> Iterator[ModelResponseStream]:
        for piece in pieces:
            if piece.choice not in self._opened:
                self._opened.add(piece.choice)
                yield self._chunk(piece.choice, _opening(piece.event))
            elif piece.choice in self._silent and isinstance(piece.event, Finish):
                yield self._chunk(piece.choice, Delta(content=""))
            self._silent.discard(piece.choice)
            logprobs = logprobs_of(piece.event)
            match piece.event:
                case Begun():
                    self._silent.add(piece.choice)
                case TokenIds(ids):
                    yield self._chunk(piece.choice, Delta(), token_ids=list(ids))
                case Finish() as finish:
                    reason = _finish_reason(finish, legacy=self._legacy)
                    extra = _extensions(finish)
                    yield self._chunk(piece.choice, Delta(), finish_reason=reason, **extra)
                case event if (delta := self._delta(event)) is not None:
                    yield self._chunk(piece.choice, delta, logprobs=logprobs)
                case _ if logprobs:
                    yield self._chunk(piece.choice, Delta(), logprobs=logprobs)

    def _delta(self, event: Said) -> Delta | None:
        match event:
            case ContentDelta(text):
                return Delta(content=text)
            case ReasoningDelta(text):
                return Delta(reasoning_content=text)
            case CallStart(_, name) if self._legacy:
                return Delta(function_call=FunctionCall(name=name, arguments=""))
            case CallStart(index, name):
                function = Function(name=name, arguments="")
                call = ChatCompletionDeltaToolCall(
                    index=index, id=self._answer.call_id(event), type="function", function=function
                )
                return Delta(tool_calls=[call])
            case ArgumentsDelta(_, text) if self._legacy:
                return Delta(function_call=FunctionCall(arguments=text))
            case ArgumentsDelta(index, text):
                call = ChatCompletionDeltaToolCall(index=index, function=Function(arguments=text))
                return Delta(tool_calls=[call])
            case _:
                return None  # CallEnd: what it says, the next call or the finish says again

    def opens_or_varies(self, piece: Piece) -> bool:
        """Whether a text's chunk differs from others of its kind in more than its text."""
        varies = self._answer.request.continuous_usage or bool(logprobs_of(piece.event))
        return varies or piece.choice not in self._opened

    def usage(self) -> ModelResponseStream:
        """The last chunk of a stream whose client asked for include_usage."""
        return self._response([], usage=_usage(self._answer.counts))

    def _chunk(
        self,
        choice: int,
        delta: Delta,
        *,
        finish_reason: str | None = None,
        logprobs: Logprobs | None = None,
        **extensions: Any,
    ) -> ModelResponseStream:
        shaped = StreamingChoices(
            index=choice,
            delta=delta,
            finish_reason=finish_reason,
            logprobs=logprobs.body() if logprobs else None,
            **extensions,
        )
        if self._answer.request.continuous_usage:
            return self._response([shaped], usage=_usage(self._answer.counts))
        return self._response([shaped])

    def _response(self, choices: list[StreamingChoices], **more: Any) -> ModelResponseStream:
        if not self._prompt_told:
            self._prompt_told = True
            more |= _of_prompt(self._answer)
        return ModelResponseStream(choices=choices, **vars(self._answer.head), **more)


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
    call_id: Callable[[CallStart], str] = field(kw_only=True)
    logprobs: Logprobs = field(default_factory=Logprobs)
    token_ids: list[int] | None = None
    finish: Finish | None = None

    def add(self, event: Said) -> None:
        if logprobs := logprobs_of(event):
            self.logprobs.extend(logprobs)
        match event:
            case ContentDelta(text):
                self.content.append(text)
            case ReasoningDelta(text):
                self.reasoning.append(text)
            case CallStart(_, name):
                self.calls.append(_Call(name, self.call_id(event)))
            case ArgumentsDelta(_, text):
                self.calls[-1].arguments.append(text)
            case TokenIds(ids):
                self.token_ids = [*(self.token_ids or ()), *ids]
            case Finish():
                self.finish = event


class WholeAnswer:
    """Pieces → the answer as one object."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._choices: dict[int, _Choice] = {}

    def add(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if piece.choice not in self._choices:
                self._choices[piece.choice] = _Choice(call_id=self._answer.call_id)
            self._choices[piece.choice].add(piece.event)

    def response(self) -> ModelResponse:
        answer = self._answer
        choices = [self._shaped(at, self._choices[at]) for at in sorted(self._choices)]
        more = _of_prompt(answer)
        return ModelResponse(
            choices=choices, usage=_usage(answer.counts), **vars(answer.head), **more
        )

    def _shaped(self, index: int, choice: _Choice) -> Choices:
        legacy = self._answer.request.legacy_functions
        said_otherwise = choice.calls or choice.reasoning
        calls: dict[str, Any] = {"tool_calls": [_whole_call(call) for call in choice.calls] or None}
        if legacy:
            calls = {"function_call": _function_call(choice.calls[0])} if choice.calls else {}
        message = Message(
            content="".join(choice.content) or (None if said_otherwise else ""),
            reasoning_content="".join(choice.reasoning) or None,
            **calls,
        )
        extensions = _extensions(choice.finish) if choice.finish else {}
        if choice.token_ids is not None:
            extensions["token_ids"] = choice.token_ids
        return Choices(
            index=index,
            message=message,
            finish_reason=_finish_reason(choice.finish, legacy=legacy) if choice.finish else None,
            logprobs=choice.logprobs.body() if choice.logprobs else None,
            **extensions,
        )


def _opening(event: Said) -> Delta:
    """The first delta of a choice. Its content is "", but null where something else comes first."""
    return Delta(role="assistant", content="" if isinstance(event, ContentDelta | Finish) else None)


def _finish_reason(finish: Finish, *, legacy: bool) -> str:
    return "function_call" if legacy and finish.reason == "tool_calls" else finish.reason


def _extensions(finish: Finish) -> dict[str, Any]:
    """What a choice says of its end beyond OpenAI's finish_reason."""
    told: dict[str, Any] = {}
    if finish.stop_reason is not None:
        told["stop_reason"] = finish.stop_reason  # vLLM's field
    if finish.call is not None:
        told["toolgate"] = {"last_call": finish.call}
    return told


def _of_prompt(answer: Answer) -> dict[str, Any]:
    """What was asked for of the prompt, in vLLM's fields."""
    told: dict[str, Any] = {}
    if answer.prompt_token_ids is not None:
        told["prompt_token_ids"] = list(answer.prompt_token_ids)
    if answer.prompt_text is not None:
        told["prompt_text"] = answer.prompt_text
    if answer.prompt_logprobs is not None:
        told["prompt_logprobs"] = [
            None if at is None else {str(token): each.model_dump() for token, each in at.items()}
            for at in answer.prompt_logprobs
        ]
    return told


def _whole_call(call: _Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": _function_call(call)}


def _function_call(call: _Call) -> dict[str, Any]:
    return {"name": call.name, "arguments": "".join(call.arguments)}


def _usage(counts: TokenCounts) -> Usage:
    return Usage(
        prompt_tokens=counts.prompt,
        completion_tokens=counts.completion,
        total_tokens=counts.prompt + counts.completion,
        prompt_tokens_details={"cached_tokens": counts.cached},
        completion_tokens_details={"reasoning_tokens": counts.reasoning},
    )
