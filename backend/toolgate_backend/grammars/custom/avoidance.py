"""Tokens of a raw input that lead to the text at which readers end it."""

from __future__ import annotations

import llguidance
import numpy as np

from ...errors import BackendError
from ...tokens import masks
from ...tokens.masks import BitmaskRow
from .views import View

MAX_TOKENS = 24
"""Maximum number of tokens through which a way around the forbidden text is searched."""


class Avoidance:
    """Leaves tokens out of one mask. `matcher` is at the position of the mask, and unchanged
    afterwards."""

    def __init__(self, matcher: llguidance.LLMatcher, view: View, forbidden: bytes) -> None:
        self._matcher = matcher
        self._view = view
        self._forbidden = forbidden
        self._known: dict[bytes, bool] = {}
        """By the text that follows: whether the forbidden text can be avoided after it. It does not
        depend on the tokens that spell the text."""

    def apply(self, row: BitmaskRow, tail: bytes, searched: bytes = b"", depth: int = 0) -> None:
        """Forbid the tokens that complete the forbidden text, or after which the grammar requires
        it. `tail`: the end of the input."""
        self._forbid_completing(row, tail)
        if depth > MAX_TOKENS:
            return
        words = row.view(np.uint32)
        for token in self._approaching(tail):
            if words[token >> 5] >> (token & 31) & 1:
                text = searched + self._view.texts[token]
                if text not in self._known:
                    self._known[text] = self._can_avoid(token, tail, text, depth)
                if not self._known[text]:
                    words[token >> 5] &= ~np.uint32(1 << (token & 31))

    def _forbid_completing(self, row: BitmaskRow, tail: bytes) -> None:
        for begun in range(len(self._forbidden)):
            if tail.endswith(self._forbidden[:begun]):
                row &= ~self._view.completing(self._forbidden, begun)[: len(row)]

    def _approaching(self, tail: bytes) -> list[int]:
        """Return the tokens that get near the forbidden text."""
        return [
            int(token)
            for begun in range(len(self._forbidden) - 1)
            if tail.endswith(self._forbidden[:begun])
            for token in self._view.approaching(self._forbidden, begun)
        ]

    def _can_avoid(self, token: int, tail: bytes, searched: bytes, depth: int) -> bool:
        """Return whether the input can end or go on after `token` without the forbidden text."""
        written = tail + self._view.texts[token]
        for probe in self._view.probes():
            consumed = self._matcher.try_consume_tokens([token, probe])
            self._roll_back(consumed)
            if not consumed:
                return False
            if consumed == 2 and not self._is_near(written + self._view.texts[probe]):
                return True
        if self._matcher.try_consume_tokens([token]) < 1:
            return False
        try:
            if self._matcher.is_stopped() or self._matcher.is_accepting():
                return not self._matcher.is_error()
            found = self._view.mask(self._matcher)
            if self._matcher.is_error():
                raise BackendError(self._matcher.get_error())
            row = found[: len(self._view.plain)] & self._view.plain
            end = written[-(len(self._forbidden) - 1) :]
            others = row & ~masks.pack(masks.token_ids(self._approaching(end)), 32 * len(row))
            self._forbid_completing(others, end)
            if others.any():
                return True
            self.apply(row, end, searched, depth + 1)
            return bool(row.any())
        finally:
            self._roll_back(1)

    def _roll_back(self, count: int) -> None:
        if count and not self._matcher.rollback(count):
            raise BackendError(self._matcher.get_error())

    def _is_near(self, text: bytes) -> bool:
        forbidden = self._forbidden
        return text.endswith(tuple(forbidden[:n] for n in range(1, len(forbidden) + 1)))
