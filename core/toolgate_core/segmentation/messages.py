"""The typed messages of a turn, in families that write them: which one begins, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from .turn_form import TurnForm


class Message(Enum):
    REASONING = auto()
    CONTENT = auto()
    """Content at the end of the turn."""
    PREAMBLE = auto()
    """Content that calls follow."""
    CALLS = auto()


class Messages:
    """The texts with which the messages of one dialect begin. `triggers` are those of calls."""

    def __init__(self, form: TurnForm, triggers: Sequence[str]) -> None:
        begins = [
            (form.reasoning_begin, Message.REASONING),
            (form.content_begin, Message.CONTENT),
            (form.preamble, Message.PREAMBLE),
            *((trigger, Message.CALLS) for trigger in triggers),
        ]
        self._begins = [(text, message) for text, message in begins if text]
        self._ends = {Message.CONTENT: form.content_end, Message.PREAMBLE: form.preamble_end}

    def begun(self, written: str) -> tuple[Message, str] | None:
        """The message that begins with `written`, and its beginning."""
        found = (each for each in self._begins if written.startswith(each[0]))
        longest = max(found, key=lambda each: len(each[0]), default=None)
        return None if longest is None else (longest[1], longest[0])

    def may_begin(self, written: str) -> bool:
        """Whether a message may begin with `written` and more text."""
        return any(text != written and text.startswith(written) for text, _ in self._begins)

    def end(self, message: Message) -> str:
        """The text that ends a message of content; empty if there is none."""
        return self._ends[message]
