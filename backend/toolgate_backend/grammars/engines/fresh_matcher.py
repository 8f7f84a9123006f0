"""llguidance's matchers of one grammar, made by copying."""

from __future__ import annotations

from collections.abc import Callable

import llguidance


class FreshMatcher:
    """A matcher before its first token, of which copies are made.

    Copies share their lexer. One that has exceeded a limit refuses everything from then on, in
    copies that are made later, too."""

    def __init__(self, make: Callable[[], llguidance.LLMatcher]) -> None:
        self._make = make
        self._matcher = make()

    def copy(self) -> llguidance.LLMatcher:
        return self._matcher.deep_copy()

    def renew(self) -> None:
        """Make later copies with another lexer: a copy has exceeded a limit."""
        self._matcher = self._make()
