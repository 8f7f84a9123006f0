"""The part of an automaton that is left when the enforcement of a sequence has failed."""

from __future__ import annotations

from collections.abc import Sequence

from ..enforcement.static_masks import StaticMasks
from ..tokens.rows import Row


class FailedSequence:
    """Takes the automaton's place. Its mask allows the failure token only, and it accepts no token,
    so that the response is an error."""

    def __init__(self, static: StaticMasks) -> None:
        self._row = static.row_of(static.failure_mask)

    def accept_tokens(self, tokens: Sequence[int]) -> bool:
        return False

    def next_row(self) -> Row:
        return self._row

    def is_terminated(self) -> bool:
        return False

    def reset(self) -> None:
        pass
