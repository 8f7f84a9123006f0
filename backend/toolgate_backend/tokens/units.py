"""Texts of a dialect as bytes in which each mark is one indivisible unit, and the index of a
vocabulary's tokens by them.

A mark (a special token that occurs in the dialect's texts) is written as `\\xff[id]`, as llguidance
writes it. Text is UTF-8, which never contains the byte 0xff, so a mark and text that looks like it
are different. Both are handled by the same code: prefixes, masks of literals, partial matches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence

from toolgate_core.dialects.marks import Marks

ESCAPE = b"\xff"

Encode = Callable[[str], tuple[int, ...]]


def mark_unit(token: int) -> bytes:
    return ESCAPE + b"[%d]" % token


def units(encoded: str, marks: Marks) -> bytes:
    """Return the units of a text from `Marks.encode`."""
    parts = (mark_unit(marks.token(c)) if marks.is_mark(c) else c.encode() for c in encoded)
    return b"".join(parts)


def unit_tokens(encoded: str, marks: Marks, encode: Encode) -> tuple[int, ...]:
    """Return the tokenizer's own tokens of a text from `Marks.encode`."""
    tokens: list[int] = []
    text = ""
    for char in encoded:
        if marks.is_mark(char):
            tokens += [*encode(text), marks.token(char)] if text else [marks.token(char)]
            text = ""
        else:
            text += char
    return (*tokens, *encode(text)) if text else tuple(tokens)


def unit_bytes(token_bytes: Sequence[bytes], mark_ids: Collection[int]) -> list[bytes]:
    """By token id: the units of a token. Those of a mark are its escape, those of any other token
    its bytes."""
    by_token = list(token_bytes)
    for token in mark_ids:
        by_token[token] = mark_unit(token)
    return by_token


MAX_LENGTH = 24
"""Maximum length in bytes of the tokens that are tried for a text of fewest tokens."""


class TokenIndex:
    """The ordinary tokens of a vocabulary and the marks, indexed by their units."""

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        special: frozenset[int],
        marks: Collection[int] = (),
    ) -> None:
        self._ids: dict[bytes, list[int]] = {}
        for token, text in enumerate(token_bytes):
            # No text of a dialect contains the byte of ESCAPE.
            if token not in special and ESCAPE not in text:
                self._ids.setdefault(text, []).append(token)
        for token in marks:
            self._ids[mark_unit(token)] = [token]
        self._sorted = sorted(self._ids)
        self._longest = max(map(len, self._sorted), default=0)

    def prefixes_of(self, text: bytes) -> list[int]:
        """Return the tokens whose bytes are a prefix of `text`."""
        prefixes: list[int] = []
        for length in range(1, min(len(text), self._longest) + 1):
            prefixes += self._ids.get(text[:length], ())
        return prefixes

    def has_extension(self, text: bytes) -> bool:
        """Return whether the bytes of some token begin with `text` and are longer."""
        after = bisect_right(self._sorted, text)
        return after < len(self._sorted) and self._sorted[after].startswith(text)

    def starting_with(self, text: bytes) -> Iterator[int]:
        """Yield the tokens whose units begin with `text`."""
        for at in range(bisect_left(self._sorted, text), len(self._sorted)):
            if not self._sorted[at].startswith(text):
                return
            yield from self._ids[self._sorted[at]]

    def containing(self, text: bytes) -> Iterator[int]:
        """Yield the tokens whose units contain `text`."""
        return (token for written, ids in self._ids.items() if text in written for token in ids)

    def fewest(self, text: bytes) -> list[int] | None:
        """Return the fewest tokens that spell `text`, none of which is longer than `MAX_LENGTH`
        bytes; None if there are none."""
        best: list[tuple[int, int, int] | None] = [(0, 0, 0), *[None] * len(text)]
        """By length of the text: the number of tokens, the last one, and the length before it."""
        for at in range(len(text)):
            if (here := best[at]) is None:
                continue
            for end in range(at + 1, min(at + MAX_LENGTH, len(text)) + 1):
                after = best[end]
                if (after is None or after[0] > here[0] + 1) and (
                    tokens := self._ids.get(text[at:end])
                ):
                    best[end] = (here[0] + 1, tokens[0], at)
        reversed_tokens: list[int] = []
        end = len(text)
        while end:
            if (step := best[end]) is None:
                return None
            reversed_tokens.append(step[1])
            end = step[2]
        return reversed_tokens[::-1]

    def longest_word(self) -> str:
        """Return the longest text of ASCII letters that is a token of at most `MAX_LENGTH` bytes,
        with the space before it if it has one."""
        short = (text for text in self._ids if len(text) <= MAX_LENGTH)
        words = (text for text in short if text.removeprefix(b" ").isalpha())
        return max(words, key=len, default=b"").decode()

    def cover(self, text: bytes) -> list[int] | None:
        """Return some tokens that spell `text`: the longest first. None if there are none."""
        cover: list[int] = []
        at = 0
        while at < len(text):
            longest = min(len(text) - at, self._longest)
            for length in range(longest, 0, -1):
                if tokens := self._ids.get(text[at : at + length]):
                    cover.append(tokens[0])
                    at += length
                    break
            else:
                return None
        return cover
