"""Free text of a turn: reasoning or content, in which other text of the dialect may begin."""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects.arguments.text import overlap
from ..wire import TokenLogprob


class FreeText:
    """Text that is withheld until it is known to be part of the response.

    Withheld are trailing white space, because models write line breaks around marks, and text that
    may be the beginning of one of the texts that end the free text.
    """

    def __init__(self) -> None:
        self.text = ""
        self.logprobs: list[TokenLogprob] = []

    def copy(self) -> FreeText:
        twin = FreeText()
        twin.text, twin.logprobs = self.text, [*self.logprobs]
        return twin

    def add(self, text: str, logprob: TokenLogprob | None) -> None:
        self.text += text
        if logprob is not None:
            self.logprobs.append(logprob)

    def take(self) -> tuple[str, tuple[TokenLogprob, ...]]:
        taken = self.text, tuple(self.logprobs)
        self.text, self.logprobs = "", []
        return taken

    def find(self, ends: Sequence[str], *, at_start: bool = False) -> tuple[int, str] | None:
        """The first of `ends` that occurs, and its position. With `at_start`, only at 0."""
        if at_start:
            return next(((0, end) for end in ends if self.text.startswith(end)), None)
        found = [(at, end) for end in ends if (at := self.text.find(end)) >= 0]
        return min(found, default=None)

    def release(self, ends: Sequence[str]) -> tuple[str, tuple[TokenLogprob, ...]]:
        """The text that is part of the response, whatever follows; empty if it is white space."""
        keep = max((overlap(self.text, end) for end in ends), default=0)
        released = self.text[: len(self.text) - keep].rstrip()
        if not released:
            return "", ()
        self.text = self.text[len(released) :]
        logprobs, self.logprobs = tuple(self.logprobs), []
        return released, logprobs
