"""Messages under construction, in the form of chat templates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from ...shared.history import History, lost_call, with_results
from .content import Content, Part, joined

Message = dict[str, Any]


@dataclass
class _Turn:
    message: Message
    path: str
    """The path of the message in the request's body."""
    parts: list[Part] = field(default_factory=list)
    part_paths: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Conversation:
    messages: tuple[Message, ...]
    paths: tuple[str, ...]
    """The path of each message in the request's body."""
    part_paths: tuple[tuple[str, ...], ...]
    """The paths of the parts of each message's content."""


class Turns:
    """Consecutive messages of one role become one message, as in Anthropic's API."""

    def __init__(self) -> None:
        self._turns: list[_Turn] = []

    def finished(self, history: History) -> Conversation:
        for turn in self._turns:
            if turn.parts:
                turn.message["content"] = joined(turn.parts)
        part_paths = {id(turn.message): tuple(turn.part_paths) for turn in self._turns}
        pairs = with_results([(turn.message, turn.path) for turn in self._turns], history)
        return Conversation(
            messages=tuple(message for message, _ in pairs),
            paths=tuple(path for _, path in pairs),
            part_paths=tuple(part_paths.get(id(message), ()) for message, _ in pairs),
        )

    def system(self, parts: list[Part], path: str) -> None:
        if parts:
            self._extend(self._begun({"role": "system"}, path), [(part, path) for part in parts])

    def user(self, parts: list[tuple[Part, str]], path: str) -> None:
        self._extend(
            self._last("user") or self._begun({"role": "user", "content": ""}, path), parts
        )

    def result(self, call_id: str, content: Content, path: str, part_paths: list[str]) -> None:
        message = {"role": "tool", "tool_call_id": call_id, "content": content}
        self._turns.append(_Turn(message, path, part_paths=part_paths))

    def other_result(self, name: str, content: Content, path: str) -> None:
        """What a tool returned that another service ran, as the result of a call of it."""
        call_id = f"other_{len(self._turns)}"
        self.call(lost_call(call_id, name), path)
        self.result(call_id, content, path, [])

    def reasoning(self, text: str, path: str) -> None:
        last = self._last("assistant")
        if last is None or last.parts or "tool_calls" in last.message:
            last = self._begun({"role": "assistant", "content": None}, path)
        earlier = last.message.get("reasoning_content")
        last.message["reasoning_content"] = f"{earlier}\n\n{text}" if earlier else text

    def text(self, part: Part, path: str) -> None:
        last = self._last("assistant")
        if last is None or "tool_calls" in last.message:
            last = self._begun({"role": "assistant", "content": None}, path)
        self._extend(last, [(part, path)])

    def call(self, call: dict[str, Any], path: str) -> None:
        last = self._last("assistant")
        if last is None:
            last = self._begun({"role": "assistant", "content": None}, path)
        last.message.setdefault("tool_calls", []).append(call)

    def compacted(self, messages: Iterable[Message], path: str) -> None:
        """Replace the conversation so far, except the system prompt, by `messages`."""
        self._turns = [*takewhile(lambda turn: turn.message["role"] == "system", self._turns)]
        for message in messages:
            content = message.get("content") or []
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            self._extend(self._begun({**message}, path), [(part, path) for part in parts])

    def _last(self, role: str) -> _Turn | None:
        last = self._turns[-1] if self._turns else None
        return last if last is not None and last.message["role"] == role else None

    def _begun(self, message: Message, path: str) -> _Turn:
        self._turns.append(_Turn(message, path))
        return self._turns[-1]

    @staticmethod
    def _extend(turn: _Turn, parts: list[tuple[Part, str]]) -> None:
        turn.parts += [part for part, _ in parts]
        turn.part_paths += [path for _, path in parts]
