"""Drafts from a sequence's own text: what followed its last tokens where they occurred before.

Arguments of a call often repeat the prompt. vLLM's drafter `ngram` does the same without async
scheduling.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

LENGTHS = (4, 3, 2)
"""Numbers of last tokens that are looked for, one after the other."""
WIDTH = array("i").itemsize


class RepeatedText:
    def __init__(self, prompt: Sequence[int]) -> None:
        self._text = bytearray(array("i", prompt).tobytes())
        self._prompt = len(prompt)

    def update(self, output: Sequence[int]) -> int:
        """Add the tokens of the response that are not known yet. `output` is all of them. Returns
        the number of new ones."""
        known = len(self._text) // WIDTH - self._prompt
        self._text += array("i", output[known:]).tobytes()
        return max(0, len(output) - known)

    def following(self, last: Sequence[int], limit: int) -> list[int]:
        """At most `limit` tokens that followed the end of the text with `last` added, where it
        occurred first; none if it did not."""
        end = (self._text[-max(LENGTHS) * WIDTH :] + array("i", last).tobytes())[
            -max(LENGTHS) * WIDTH :
        ]
        for length in LENGTHS:
            at = self._find(end[-length * WIDTH :])
            if at is not None:
                found = array("i", bytes(self._text[at : at + limit * WIDTH]))
                return found.tolist()
        return []

    def _find(self, tokens: bytearray) -> int | None:
        """Where the text goes on after its first part that has these tokens."""
        at = self._text.find(tokens)
        while at % WIDTH and at >= 0:
            at = self._text.find(tokens, at + 1)
        end = at + len(tokens)
        return None if at < 0 or end >= len(self._text) else end
