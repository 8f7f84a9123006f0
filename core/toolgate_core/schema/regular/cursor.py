"""A place in the text of a pattern."""

from __future__ import annotations

import re

from .syntax import Unsupported


class Cursor:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        return self._pattern[self.at + ahead : self.at + ahead + 1]

    def next(self) -> str:
        self.at += 1
        if self.at > len(self._pattern):
            raise self.error("it ends too early")
        return self._pattern[self.at - 1]

    def skip(self, text: str) -> bool:
        if not self._pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def is_at(self, expected: re.Pattern[str], offset: int = 0) -> bool:
        return expected.match(self._pattern, self.at + offset) is not None

    def take(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        found = expected.match(self._pattern, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def error(self, reason: str) -> Unsupported:
        return Unsupported(f"it is no regular expression of JavaScript ({reason})")
