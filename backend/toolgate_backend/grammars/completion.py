"""The way to end a call soon: few tokens that take a matcher from where it is to its end.

A greedy search over masks: text that is forced goes in its longest tokens, and what closes a JSON
value goes before what could follow. What it finds may not be the shortest there is, but it is a
way that a sequence can be made to go, which is what budgets rest on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..enforcement import masks
from ..enforcement.call_prefix import TokenTexts
from .engines.engine import Matcher, Words, words_for

MAX_STEPS = 512
"""Tokens after which a way is given up: a schema that asks for so much has no short call."""
MAX_BRANCHES = 96
"""Places on one way at which tokens are tried out, each of which costs a mask."""
CHAIN = 64
"""Masks of more tokens than this are not looked through for forced text."""
TRIED = 8
"""Tokens from either end, the short and the long, that are tried for one that can be closed."""


@dataclass(frozen=True)
class Scan:
    """Whether the JSON text so far ends inside a string, and there behind a backslash."""

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
    """What the search knows of a vocabulary."""

    def __init__(self, token_bytes: Sequence[bytes], special: frozenset[int]) -> None:
        size = len(token_bytes)
        self._bytes = token_bytes
        self._special = special
        self._length = np.array([len(text) for text in token_bytes], dtype=np.int32)
        self._ordinary = ~masks.pack(masks.ids(special), size)
        # Bits past the vocabulary belong to no token.
        self._ordinary &= masks.pack(np.arange(size), size)
        ordinary = [(i, text) for i, text in enumerate(token_bytes) if i not in special]
        self._closing = {
            True: self._row(i for i, text in ordinary if _closes_string(text)),
            False: self._row(i for i, text in ordinary if _closes_value(text)),
        }

    @cached_property
    def texts(self) -> TokenTexts:
        return TokenTexts(self._bytes, self._special)

    def path(self, matcher: Matcher, scan: Scan = Scan()) -> list[int] | None:  # noqa: B008 - frozen
        """Tokens to the end of the matcher's text, or None where none was found. The matcher is
        left as it was."""
        taken: list[int] = []
        branches = 0
        try:
            while not matcher.finished:
                if len(taken) == MAX_STEPS or branches == MAX_BRANCHES:
                    return None
                token, branched = self._next(matcher, scan)
                branches += branched
                if token is None or not matcher.accept(token):
                    return None
                taken.append(token)
                scan = scan.after(self._bytes[token])
            return list(taken)
        finally:
            if taken:
                matcher.rollback(len(taken))

    def _next(self, matcher: Matcher, scan: Scan) -> tuple[int | None, bool]:
        """The next token on the way, and whether others were tried for it."""
        row = self._mask(matcher)
        closing = row & self._closing[scan.in_string]
        if closing.any():
            return self._longest(masks.unpack(closing)), False
        allowed = masks.unpack(row)
        if not len(allowed):  # as in Union: a special token may hide the text that must come
            allowed = masks.ids(self.texts.beginning(matcher.forced()))
            return (self._longest(allowed) if len(allowed) else None), False
        longest = self._longest(allowed)
        if len(allowed) == 1 or self._is_chain(allowed, longest):
            return longest, False
        closable = self._closable(matcher, scan, allowed)
        return longest if closable is None else closable, True

    def _closable(self, matcher: Matcher, scan: Scan, allowed: masks.Ids) -> int | None:
        """A token after which something can be closed; the short ones are tried first."""
        by_length = allowed[np.argsort(self._length[allowed], kind="stable")]
        tried = [*by_length[:TRIED], *by_length[: TRIED - 1 : -1][:TRIED]]
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

    def _is_chain(self, allowed: masks.Ids, longest: int) -> bool:
        """Whether the tokens are beginnings of one text."""
        text = self._bytes[longest]
        return len(allowed) <= CHAIN and all(text.startswith(self._bytes[i]) for i in allowed)

    def _longest(self, tokens: masks.Ids) -> int:
        return int(tokens[np.argmax(self._length[tokens])])

    def _mask(self, matcher: Matcher) -> Words:
        row = np.empty(words_for(len(self._bytes)), dtype=np.int32)
        matcher.fill(row)
        return row & self._ordinary

    def _row(self, tokens: object) -> Words:
        return masks.pack(masks.ids(tokens), len(self._bytes))


def _closes_string(text: bytes) -> bool:
    """Ends the string it is written in, and perhaps the values around it."""
    return text.startswith(b'"') and not text[1:].strip(b"}]\n")


def _closes_value(text: bytes) -> bool:
    """Outside a string: ends values, or is the empty string, which ends one as it begins."""
    rest = text.removeprefix(b'""')
    return bool(text) and not rest.strip(b"}]\n") and text != b"\n"
