"""The form in which the answers of all APIs are checked and compared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    content: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]
    """Name and arguments."""
    complete: tuple[bool, ...]
    """By call: whether the API presents it as complete."""
    cut: bool
    """Whether the maximum number of tokens ended it."""
    usage: tuple[int, int]
    """Tokens of the prompt and of the response."""
    reason: str
    """Why it ended, in the words of the API."""

    def compared(self, *, exact: bool, reasoning: bool) -> tuple[Any, ...]:
        """What two answers must have in common. `exact`: with the spelling of arguments and with
        incomplete calls, which not every API has."""
        return (
            self.content,
            self.reasoning if reasoning else "",
            (self.calls, self.complete) if exact else self._parsed(),
            self.cut,
            self.usage,
        )

    def _parsed(self) -> tuple[tuple[str, str], ...]:
        calls = zip(self.calls, self.complete, strict=True)
        return tuple(
            (name, json.dumps(json.loads(arguments), sort_keys=True))
            for (name, arguments), is_complete in calls
            if is_complete
        )


NONE = Answer("", "", (), (), cut=True, usage=(0, 0), reason="")
"""Stands for an answer that could not be read."""
