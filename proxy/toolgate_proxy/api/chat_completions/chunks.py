"""Events of a response → OpenAI's chat.completion.chunk objects, and their server-sent events.

Fields beyond OpenAI's are described in docs/answers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from toolgate_core.deltas import ArgumentsDelta, CallStart, ContentDelta, Finish, ReasoningDelta

from ...chat.choice import ChoiceEvent, ChoiceStarted, TokenIds
from ...chat.response import ChatResponse, ResponseEvent
from .fields import finish_fields, finish_reason, prompt_fields, usage
from .logprobs import Logprobs, logprobs_of

Chunk = dict[str, Any]

DONE = b"data: [DONE]\n\n"

LINE_ENDS = {
    character.encode(): f"\\u{ord(character):04x}".encode() for character in "\u0085\u2028\u2029"
}
"""JSON may contain them unescaped, and clients that decode before they split lines (httpx's
`aiter_lines`, for one) take them for ends of lines."""


class Chunks:
    """Every choice begins with its role and ends with its finish_reason. `model`: as the client
    named it."""

    def __init__(self, answer: ChatResponse, model: str | None = None) -> None:
        self._answer = answer
        self._legacy = answer.request.legacy_functions
        head = answer.head
        self._head = {
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": model or head.model,
            "system_fingerprint": head.system_fingerprint,
        }
        self._continuous_usage = answer.request.continuous_usage
        self._opened: set[int] = set()
        self._silent: set[int] = set()
        """Choices of which only the role was sent."""
        self._prompt_sent = False

    def of(self, pieces: Iterable[ResponseEvent]) -> Iterator[Chunk]:
        for piece in pieces:
            choice, event = piece.choice, piece.event
            if choice not in self._opened:
                self._opened.add(choice)
                yield self._chunk(choice, _opening(event))
            elif choice in self._silent and isinstance(event, Finish):
                yield self._chunk(choice, {"content": ""})
            self._silent.discard(choice)
            logprobs = logprobs_of(event) if getattr(event, "logprobs", None) else None
            match event:
                case ChoiceStarted():
                    self._silent.add(choice)
                case TokenIds(ids):
                    yield self._chunk(choice, {}, token_ids=list(ids))
                case Finish() as finish:
                    reason = finish_reason(finish, legacy=self._legacy)
                    yield self._chunk(choice, {}, reason, **finish_fields(finish))
                case _ if (delta := self._delta(event)) is not None:
                    yield self._chunk(choice, delta, logprobs=logprobs)
                case _ if logprobs:
                    yield self._chunk(choice, {}, logprobs=logprobs)

    def usage(self) -> Chunk:
        """The last chunk of a stream whose client asked for include_usage."""
        return self._response([], usage=usage(self._answer.counts))

    def _delta(self, event: ChoiceEvent) -> dict[str, Any] | None:
        match event:
            case ContentDelta(text):
                return {"content": text}
            case ReasoningDelta(text):
                return {"reasoning_content": text}
            case CallStart(_, name) if self._legacy:
                return {"function_call": {"name": name, "arguments": ""}}
            case CallStart(index, name):
                function = {"name": name, "arguments": ""}
                call_id = self._answer.call_id(event)
                call = {"index": index, "id": call_id, "type": "function", "function": function}
                return {"tool_calls": [call]}
            case ArgumentsDelta(_, text) if self._legacy:
                return {"function_call": {"arguments": text}}
            case ArgumentsDelta(index, text):
                return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
            case _:
                return None  # CallEnd: the next call or the finish_reason says the same

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
            return self._response([shaped], usage=usage(self._answer.counts))
        return self._response([shaped])

    def _response(self, choices: list[dict[str, Any]], **more: Any) -> Chunk:
        if not self._prompt_sent:
            self._prompt_sent = True
            more |= prompt_fields(self._answer)
        return {**self._head, "choices": choices, **more}


def server_sent(chunks: Iterable[Chunk]) -> bytes:
    """The chunks as server-sent events."""
    events = b"".join([b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks])
    for character, escaped in LINE_ENDS.items():
        if character in events:
            events = events.replace(character, escaped)
    return events


def _opening(event: ChoiceEvent) -> dict[str, Any]:
    """The first delta of a choice. Its content is "", or null where something else comes first."""
    return {
        "role": "assistant",
        "content": "" if isinstance(event, ContentDelta | Finish) else None,
    }
