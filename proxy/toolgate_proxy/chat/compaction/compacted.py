"""A compacted conversation: the summary, and the messages after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ..request.truncation import HEAD
from .prompt import shown

PAUSED = "compaction"
"""The reason why a response ends after the summary."""
Message = dict[str, Any]


@dataclass(frozen=True)
class Compacted:
    """It is also the event that begins a response before which the conversation was compacted."""

    summary: str
    recent: tuple[Message, ...] = ()
    """The messages of the conversation that stayed as they are. They follow the summary."""
    keeps_users: bool = False
    """Whether messages of users stay that are before the summary."""
    pauses: bool = False
    """Whether the response has nothing else."""

    def remaining(self, roles: Sequence[str]) -> list[int]:
        """Return the places of those messages before the summary that stay. `roles`: of the
        messages."""
        if self.keeps_users:
            return [at for at, role in enumerate(roles) if role in (*HEAD, "user")]
        return list(range(sum(1 for _ in takewhile(HEAD.__contains__, roles))))

    def messages(self) -> list[Message]:
        """Return the messages that replace the conversation. Many templates do not accept two
        messages of the user in a row, so the summary is part of a first message of the user."""
        text, recent = shown(self.summary), list(self.recent)
        if recent and recent[0]["role"] == "user":
            return [text_before(text, recent[0]), *recent[1:]]
        return [{"role": "user", "content": text}, *recent]


def text_before(text: str, message: Message) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": f"{text}\n\n{content}"}
    return {**message, "content": [{"type": "text", "text": text}, *content]}


def text_after(text: str, message: Message) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{text}"}
    return {**message, "content": [*content, {"type": "text", "text": text}]}
