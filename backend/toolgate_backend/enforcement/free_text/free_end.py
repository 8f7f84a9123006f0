"""The text that ends a free phase: reasoning, or a message of content."""

from __future__ import annotations

from ...tokens.units import units
from ...tokens.vocabulary import Vocabulary
from .text_match import TextMatch


class FreeEnd:
    """A free phase ends when its text ends with `text`, up to the first mark. What follows that
    mark is forced."""

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        """`text` is encoded (`Marks.encode`)."""
        marks = vocabulary.form.marks
        first = next((at for at, char in enumerate(text) if marks.is_mark(char)), len(text) - 1)
        decisive, rest = text[: first + 1], text[first + 1 :]
        in_decisive = [marks.token(char) for char in decisive if marks.is_mark(char)]
        self.tokens = vocabulary.literal_tokens(text)
        self.rest = vocabulary.literal_tokens(rest)
        """The tokens after the one that ends the phase."""
        self.mark: int | None = None
        """The token that ends the phase, if no text has to precede it."""
        self.match: TextMatch | None = None
        """The text that ends the phase, if it is more than a mark."""
        if len(decisive) == len(in_decisive) == 1:
            self.mark = in_decisive[0]
        else:
            ordinary = [i for i in range(vocabulary.size) if i not in vocabulary.special]
            self.match = TextMatch(
                units(decisive, marks), vocabulary.unit_bytes, [*ordinary, *in_decisive]
            )
        self._units = vocabulary.unit_bytes

    def ending(self, partial: bytes) -> tuple[frozenset[int], frozenset[int]]:
        """The tokens that end the phase after `partial`, and those that would continue beyond its
        end, which are not allowed."""
        if self.match is None:
            return frozenset({self.mark} if self.mark is not None else ()), frozenset()
        completing = self.match.containing | self.match.completing(partial)
        ends = frozenset(t for t in completing if self.ends(partial, t))
        return ends, completing - ends

    def ends(self, partial: bytes, token: int) -> bool:
        """Whether `token` ends the phase after `partial`."""
        if self.match is None:
            return token == self.mark
        return self.match.completed(partial, self._units[token]) == b""

    def overshoots(self, partial: bytes, token: int) -> bool:
        """Whether `token` contains the end of the phase and more."""
        return self.match is not None and bool(self.match.completed(partial, self._units[token]))

    def partial(self, before: bytes, token: int) -> bytes:
        """The beginning of the text at the end of what was written; `before` is the previous
        one."""
        return self.match.partial(before + self._units[token]) if self.match else b""
