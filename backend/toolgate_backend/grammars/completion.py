"""Search for a short completion: tokens that take a matcher from its position to the end of its
text.

The search is greedy and works on masks. It writes forced text in the longest tokens, and prefers
tokens that close a JSON value to tokens that continue it. The result may not be the shortest
completion, but it is one that a sequence can be forced to take. Budgets need no more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..tokens import masks
from ..tokens.masks import BitmaskRow, words_per_row
from ..tokens.token_index import TokenIndex
from .engines.engine import Matcher

MAX_STEPS = 512
"""Maximum number of tokens of a completion. A schema that needs more has no short call."""
MAX_BRANCHES = 96
"""Maximum number of positions at which several tokens are tried. Each costs a mask."""
MAX_CHAIN_TOKENS = 64
"""Masks with more tokens than this are not searched for forced text."""
TRIED_TOKENS = 8
"""Number of short and of long tokens that are tried for one after which a value can be closed."""


@dataclass(frozen=True)
class Scan:
    """Whether the JSON text so far ends inside a string, and whether its last character is a
    backslash."""

    in_string: bool = False
    escaped: bool = False

    def after(self, text: bytes) -> Scan:
        if b'"' not in text and b"\\" not in text:
            return Scan(self.in_string) if self.escaped and text else self
        in_string, escaped = self.in_string, self.escaped
        for byte in text:
            if escaped:
                escaped = False
            elif in_string and byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = not in_string
        return Scan(in_string, escaped)


class Completion:
    """The completion search for one vocabulary."""

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        special: frozenset[int],
        grammar_marks: frozenset[int] = frozenset(),
        marks: frozenset[int] = frozenset(),
    ) -> None:
        """`special` tokens are never part of a grammar's text, except `grammar_marks`. `marks` can
        be part of the fixed text before a grammar."""
        size = len(token_bytes)
        self._bytes = token_bytes
        self.call_scan = Scan()
        """The position in JSON at which the grammars of calls begin."""
        self._all_special = special
        self._marks = marks | grammar_marks
        special -= grammar_marks
        self._length = np.array([len(text) for text in token_bytes], dtype=np.int32)
        self._ordinary = ~masks.pack(masks.token_ids(special), size)
        # Bits beyond the vocabulary belong to no token.
        self._ordinary &= masks.pack(np.arange(size), size)
        ordinary = [(i, text) for i, text in enumerate(token_bytes) if i not in special]
        self._closing = {
            True: self._row(i for i, text in ordinary if _closes_string(text)),
            False: self._row(i for i, text in ordinary if _closes_value(text)),
        }

    @cached_property
    def token_index(self) -> TokenIndex:
        return TokenIndex(self._bytes, self._all_special, self._marks)

    def path(self, matcher: Matcher, scan: Scan = Scan()) -> list[int] | None:  # noqa: B008 - frozen
        """The tokens to the end of the matcher's text; None if none were found. The matcher is
        unchanged."""
        taken: list[int] = []
        branches = 0
        try:
            while not matcher.finished:
                if len(taken) == MAX_STEPS or branches == MAX_BRANCHES:
                    return None
                tokens, branched = self._next(matcher, scan)
                branches += branched
                for token in tokens:
                    if not matcher.accept(token):
                        return None
                    taken.append(token)
                    scan = scan.after(self._bytes[token])
                if not tokens:
                    return None
            return list(taken)
        finally:
            if taken:
                matcher.rollback(len(taken))

    def _next(self, matcher: Matcher, scan: Scan) -> tuple[list[int], bool]:
        """The next tokens of the completion, and whether several were tried; no tokens if there
        are none."""
        row = self._mask(matcher)
        closing = row & self._closing[scan.in_string]
        if closing.any():
            return [self._longest(masks.unpack(closing))], False
        allowed = masks.unpack(row)
        if not len(allowed):
            return self._forced(matcher), False
        longest = self._longest(allowed)
        if len(allowed) == 1 or self._is_chain(allowed, longest):
            return [longest], False
        closable = self._closable(matcher, scan, allowed)
        return [longest if closable is None else closable], True

    def _forced(self, matcher: Matcher) -> list[int]:
        """The longest token of the forced text: a special token may hide it from the mask, as in
        CandidateSet."""
        tokens = masks.token_ids(self.token_index.prefixes_of(matcher.forced()))
        return [self._longest(tokens)] if len(tokens) else []

    def _closable(self, matcher: Matcher, scan: Scan, allowed: masks.TokenIds) -> int | None:
        """A token after which a value can be closed. Short tokens are tried first."""
        by_length = allowed[np.argsort(self._length[allowed], kind="stable")]
        tried = [*by_length[:TRIED_TOKENS], *by_length[: TRIED_TOKENS - 1 : -1][:TRIED_TOKENS]]
        for token in map(int, tried):
            if not matcher.accept(token):
                continue
            try:
                after = scan.after(self._bytes[token])
                if matcher.finished or (self._mask(matcher) & self._closing[after.in_string]).any():
                    return token
            finally:
                matcher.rollback(1)
        return None

    def _is_chain(self, allowed: masks.TokenIds, longest: int) -> bool:
        """Whether all tokens are prefixes of one text."""
        text = self._bytes[longest]
        return len(allowed) <= MAX_CHAIN_TOKENS and all(
            text.startswith(self._bytes[i]) for i in allowed
        )

    def _longest(self, tokens: masks.TokenIds) -> int:
        return int(tokens[np.argmax(self._length[tokens])])

    def _mask(self, matcher: Matcher) -> BitmaskRow:
        row = np.empty(words_per_row(len(self._bytes)), dtype=np.int32)
        matcher.fill(row)
        return row & self._ordinary

    def _row(self, tokens: object) -> BitmaskRow:
        return masks.pack(masks.token_ids(tokens), len(self._bytes))


def _closes_string(text: bytes) -> bool:
    """Whether the text ends the string that it is written in, and perhaps the values around it."""
    return text.startswith(b'"') and not text[1:].strip(b"}]\n")


def _closes_value(text: bytes) -> bool:
    """Whether the text, outside a string, ends values or is the empty string."""
    rest = text.removeprefix(b'""')
    return bool(text) and not rest.strip(b"}]\n") and text != b"\n"
