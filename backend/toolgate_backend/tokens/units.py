"""Texts of a dialect as bytes in which each mark is one indivisible unit.

A mark (a special token that occurs in the dialect's texts) is written as `\\xff[id]`, as llguidance
writes it. Text is UTF-8, which never contains the byte 0xff, so a mark and text that looks like it
are different. Both are handled by the same code: prefixes, masks of literals, partial matches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

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
    found = list(token_bytes)
    for token in mark_ids:
        found[token] = mark_unit(token)
    return found
