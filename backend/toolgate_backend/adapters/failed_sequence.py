"""The part of an automaton that is left when the enforcement of a sequence has failed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..enforcement.static_masks import StaticMasks
from ..tokens import masks
from ..tokens.rows import Row


class FailedSequence:
    """Takes the automaton's place. Its mask allows the failure token only, and it accepts no token,
    so that the response is an error."""

    def __init__(self, static: StaticMasks) -> None:
        words = np.empty_like(static.in_grammars)
        masks.render(static.failure_mask, words, static.vocabulary_size)
        self._row = static.rows.row(words)

    def accept_tokens(self, tokens: Sequence[int]) -> bool:
        return False

    def next_row(self) -> Row:
        return self._row

    def is_terminated(self) -> bool:
        return False

    def reset(self) -> None:
        pass
