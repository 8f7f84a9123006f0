"""Views of the vocabulary in which each token stands for the text that it spells inside a quoted
string.

A grammar of text is matched over such a view, so it applies to the text and not to its escapes. An
escape is often split over two tokens, such as `)\\` and `n`. Therefore a view has three parts: what
each token spells, what each token spells after a backslash, and for each token that ends in a
backslash the texts that it may become.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import llguidance
import numpy as np

from ...tokens import masks
from ...tokens.masks import BitmaskRow, TokenIds, words_per_row
from .texts import Writing

_JSON = {
    ord(escape): text.encode()
    for escape, text in {
        '"': '"',
        "\\": "\\",
        "/": "/",
        "b": "\b",
        "f": "\f",
        "n": "\n",
        "r": "\r",
        "t": "\t",
    }.items()
}
_PYTHON = {byte: text for byte, text in _JSON.items() if byte != ord("/")} | {ord("'"): b"'"}
WRITABLE = r"[^\x00-\x07\x0b\x0e-\x1f]"
"""A character that has an escape in a quoted text, or is written as it is."""
_ESCAPES: Mapping[Writing, Mapping[int, bytes]] = {"json": _JSON, "python": _PYTHON}
NEAR = 2
"""Bytes of the forbidden text from which on it is checked that it can be avoided."""
PROBES = (b" ", b"a", b"1", b"\n", b"*")
MAX_OPENINGS = 64
"""Maximum number of texts whose openings are cached."""
_QUOTE, _BACKSLASH, _FIRST_PRINTABLE = 0x22, 0x5C, 0x20
_SPECIAL = re.compile(rb'["\\\x00-\x1f]')


@dataclass(frozen=True, eq=False)
class View:
    writing: Writing
    tokenizer: llguidance.LLTokenizer
    plain: BitmaskRow
    """The tokens that are parts of a text."""
    escaped: BitmaskRow | None
    """The tokens that are parts of a text after a backslash; None if there are no escapes."""
    offset: int
    """What is added to the id of a token after a backslash."""
    split: TokenIds
    """The tokens that end in a backslash."""
    split_offset: int
    """The place of their texts, one row of `ways` for each: without the backslash, and with each
    escape."""
    ways: int
    texts: Sequence[bytes]
    """The bytes of each token; empty for special tokens."""
    spelled: Sequence[bytes]
    """What each token spells; empty if it is no part of a text."""
    _sorted: list[tuple[bytes, int]] = field(default_factory=list)
    _ids: dict[bytes, int] = field(default_factory=dict)
    """By text: a token that spells it."""
    ids: dict[bytes, int] = field(default_factory=dict)
    """By bytes: a token that has them."""
    _split_rows: dict[int, int] = field(default_factory=dict)
    _openings: dict[bytes, dict[int, int]] = field(default_factory=dict)
    _approaching: dict[tuple[bytes, int], TokenIds] = field(default_factory=dict)
    _completing: dict[tuple[bytes, int], BitmaskRow] = field(default_factory=dict)
    _closings: dict[bytes, dict[int, tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sorted.extend(sorted((text, at) for at, text in enumerate(self.texts) if text))
        self._ids.update({text: at for at, text in enumerate(self.spelled) if text})
        self.ids.update({text: at for at, text in enumerate(self.texts) if text})
        self._split_rows.update({int(token): at for at, token in enumerate(self.split)})

    def before_backslash(self, token: int) -> int | None:
        """The place of the text of a token without the backslash in which it ends; None if it does
        not end in one."""
        at = self._split_rows.get(token)
        return None if at is None else self.split_offset + at * self.ways

    def is_backslash(self, token: int) -> bool:
        return self.texts[token] == b"\\"

    def possible_splits(self, found: BitmaskRow) -> TokenIds:
        """The tokens that end in a backslash after which an escape is possible. `found`: the mask
        over the view."""
        bits = np.unpackbits(found[self.split_offset // 32 :].view(np.uint8), bitorder="little")
        rows = bits[: len(self.split) * self.ways].reshape(-1, self.ways)
        return self.split[rows[:, 1:].any(axis=1)]

    def closings(self, after: bytes) -> dict[int, tuple[int, int]]:
        """The tokens that end an input and go on with the text after it: by token, a token that
        spells the part of the input alone, and the number of bytes of the text after it."""
        if after not in self._closings:
            if len(self._closings) > MAX_OPENINGS:
                self._closings.clear()
            self._closings[after] = dict(self._find_closings(after))
        return self._closings[after]

    def _find_closings(self, after: bytes) -> Iterator[tuple[int, tuple[int, int]]]:
        first = after[:1]
        for text, token in self._sorted:
            at = text.find(first, 1) if first else -1
            while at > 0:
                if after.startswith(text[at:]):
                    spelled = self._spelled_by(text[:at])
                    if spelled in self._ids:
                        yield token, (self._ids[spelled], len(text) - at)
                    break
                at = text.find(first, at + 1)

    def joints(self, before: bytes, after: bytes) -> list[int]:
        """The tokens that go on from the text before an empty input to the text after it."""
        text, lengths = before + after, range(len(before) + 1, len(before) + len(after) + 1)
        return [self.ids[text[:n]] for n in lengths if text[:n] in self.ids]

    def _spelled_by(self, text: bytes) -> bytes:
        return text if self.writing == "raw" else unescaped(text, _ESCAPES[self.writing])

    def completing(self, text: bytes, begun: int) -> BitmaskRow:
        """The tokens that complete `text`, of which `begun` bytes are written; with 0, those that
        contain it."""
        key = (text, begun)
        if key not in self._completing:
            rest = text[begun:]
            found = [
                token
                for token, each in enumerate(self.texts)
                if (each.startswith(rest) if begun else rest in each)
            ]
            self._completing[key] = masks.pack(masks.token_ids(found), len(self.texts))
        return self._completing[key]

    def approaching(self, text: bytes, begun: int) -> TokenIds:
        """The tokens after which at least `NEAR` bytes of `text` are written, but not all, if
        `begun` bytes are written before them."""
        key = (text, begun)
        if key not in self._approaching:
            ends = [text[:n] for n in range(NEAR, len(text))]
            if begun:
                ends = [end[begun:] for end in ends if len(end) > begun]
                found = [self.ids[end] for end in ends if end in self.ids]
            else:
                found = [at for at, each in enumerate(self.texts) if each.endswith((*ends,))]
            self._approaching[key] = masks.token_ids(found)
        return self._approaching[key]

    def probes(self) -> list[int]:
        """Tokens that often can continue a text."""
        return [self.ids[each] for each in PROBES if each in self.ids]

    def openings(self, text: bytes) -> dict[int, int]:
        """The tokens that begin with `text` and go on with a part of an input: by token, a token
        that spells that part alone."""
        if text not in self._openings:
            if len(self._openings) > MAX_OPENINGS:
                self._openings.clear()
            self._openings[text] = dict(self._find_openings(text))
        return self._openings[text]

    def _find_openings(self, text: bytes) -> Iterator[tuple[int, int]]:
        at = bisect_left(self._sorted, (text, -1))
        while at < len(self._sorted) and self._sorted[at][0].startswith(text):
            whole, token = self._sorted[at]
            spelled = self._spelled_by(whole[len(text) :])
            if spelled in self._ids:
                yield token, self._ids[spelled]
            at += 1

    @property
    def words(self) -> int:
        """Return the number of 32-bit words in a mask of the view."""
        return words_per_row(self.tokenizer.vocab_size)


def raw_view(tokenizer: llguidance.LLTokenizer) -> View:
    texts = _texts(tokenizer)
    return View(
        writing="raw",
        tokenizer=tokenizer,
        plain=_row(texts),
        escaped=None,
        offset=0,
        split=masks.token_ids(()),
        split_offset=0,
        ways=0,
        texts=texts,
        spelled=texts,
    )


def quoted_view(tokenizer: llguidance.LLTokenizer, writing: Writing) -> View:
    """Takes about a second for a large vocabulary."""
    escapes = _ESCAPES[writing]
    texts = _texts(tokenizer)
    size = words_per_row(len(texts)) * 32
    plain = [unescaped(text, escapes) for text in texts]
    escaped = [
        unescaped(b"\\" + text, escapes) if text[:1] and text[0] in escapes else b""
        for text in texts
    ]
    split: list[int] = []
    ways: list[bytes] = []
    for token, text in enumerate(texts):
        if plain[token] or not text.endswith(b"\\"):
            continue
        begin = unescaped(text[:-1], escapes)
        if begin or len(text) == 1:
            split.append(token)
            ways += [begin, *(begin + escape for escape in escapes.values())]
    padding = [b""] * (size - len(texts))
    tokens = [*plain, *padding, *escaped, *padding, *ways]
    made = llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(_Tokens(tokens, end=tokenizer.eos_token)), n_vocab=len(tokens)
    )
    return View(
        writing=writing,
        tokenizer=made,
        plain=_row(plain),
        escaped=_row(escaped),
        offset=size,
        split=masks.token_ids(split),
        split_offset=2 * size,
        ways=1 + len(escapes),
        texts=texts,
        spelled=plain,
    )


def _texts(tokenizer: llguidance.LLTokenizer) -> list[bytes]:
    return [
        b"" if tokenizer.is_special_token(at) else bytes(tokenizer.decode_bytes([at]))
        for at in range(tokenizer.vocab_size)
    ]


def _row(texts: Sequence[bytes]) -> BitmaskRow:
    found = [at for at, text in enumerate(texts) if text]
    return masks.pack(np.array(found, dtype=np.int64), len(texts))


def unescaped(text: bytes, escapes: Mapping[int, bytes]) -> bytes:
    """The text that `text` spells; empty if it is no complete part of a string."""
    if not _SPECIAL.search(text):
        return text
    spelled, at = bytearray(), 0
    while at < len(text):
        byte = text[at]
        if byte == _BACKSLASH:
            escape = escapes.get(text[at + 1]) if at + 1 < len(text) else None
            if escape is None:
                return b""
            spelled += escape
            at += 2
        elif byte == _QUOTE or byte < _FIRST_PRINTABLE:
            return b""
        else:
            spelled.append(byte)
            at += 1
    return bytes(spelled)


class _Tokens:
    """A tokenizer in the form of llguidance.TokenizerWrapper. It encodes single bytes only, which
    matching does not need."""

    def __init__(self, tokens: list[bytes], end: int) -> None:
        self.tokens = tokens
        self.eos_token_id = end
        self.bos_token_id = None
        self.special_token_ids: list[int] = []
        self._bytes = {text: at for at, text in reversed([*enumerate(tokens)]) if len(text) == 1}

    def __call__(self, text: Any) -> list[int]:
        raw = text if isinstance(text, bytes) else text.encode()
        return [self._bytes[raw[at : at + 1]] for at in range(len(raw))]
