"""The fixed texts around the input of a custom tool, token by token, and how the input is written
between them: views of the vocabulary in which each token stands for the text that it spells inside
a quoted string.

A grammar of text is matched over such a view, so it applies to the text and not to its escapes. An
escape is often split over two tokens, such as `)\\` and `n`. Therefore a view has three parts: what
each token spells, what each token spells after a backslash, and for each token that ends in a
backslash the texts that it may become.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import llguidance
import llguidance.numpy
import numpy as np

from toolgate_core.custom_tools import INPUT
from toolgate_core.dialects.arguments.tagged import CDATA, CDATA_END
from toolgate_core.dialects.dialect import Codec, GemmaValues, Json, NestedTags, Pythonic, Tagged
from toolgate_core.dialects.marks import Marks

from ...errors import GrammarRefused
from ...tokens import masks
from ...tokens.masks import BitmaskRow, TokenIds, words_per_row
from ...tokens.units import ESCAPE, mark_unit

Writing = Literal["json", "python", "raw"]
"""`json` and `python`: with the escapes of a string in double quotes. `raw`: as it is."""


@dataclass(frozen=True)
class InputTexts:
    """The texts are encoded (`Marks.encode`)."""

    before: str
    after: str
    writing: Writing
    forbidden: str = ""
    """The text at which readers end a raw input, so that it can't contain it; not encoded."""


def input_texts(codec: Codec, marks: Marks) -> InputTexts:
    """Return the texts of arguments that have only an input."""
    match codec:
        case Json(key_separator=separator):
            return InputTexts(f'{{"{INPUT}"{separator}"', '"}', "json")
        case Pythonic():
            return InputTexts(f'{INPUT}="', '"', "python")
        case Tagged():
            types = dict(codec.types)
            middle = codec.middle.replace("{type}", types.get("string", ""))
            before = f"{codec.begin}{INPUT}{middle}{CDATA if codec.cdata else ''}"
            after = f"{CDATA_END if codec.cdata else ''}{codec.end}"
            return InputTexts(
                marks.encode(before),
                marks.encode(after),
                "raw",
                CDATA_END if codec.cdata else codec.close,
            )
        case NestedTags(namespace=namespace):
            before, after = f"{namespace}<{INPUT}>", f"{namespace}</{INPUT}>"
            return InputTexts(marks.encode(before), marks.encode(after), "raw", namespace)
        case GemmaValues(quote=quote, braces=braces):
            before = f"{'{' if braces else ''}{INPUT}:{quote}"
            after = f"{quote}{'}' if braces else ''}"
            return InputTexts(marks.encode(before), marks.encode(after), "raw", quote)
    raise GrammarRefused(f"the codec {type(codec).__name__} has no texts", "")


@dataclass(frozen=True, eq=False)
class FixedText:
    """A text of a dialect, which may have marks. A position is a number of bytes of `units`."""

    units: bytes
    texts: Sequence[bytes]
    """The bytes of each token; empty for special tokens."""
    ids: Mapping[bytes, int]
    """By bytes: a token that has them."""
    _allowed: dict[int, TokenIds] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.units)

    @property
    def plain(self) -> bytes:
        """The text up to its first mark."""
        return self.units.partition(ESCAPE)[0]

    def allowed(self, at: int) -> TokenIds:
        """Return the tokens with which the text can go on."""
        if at not in self._allowed:
            rest = self.units[at:]
            if rest.startswith(ESCAPE):
                found = [int(rest[2 : rest.index(b"]")])]
            else:
                rest = rest.partition(ESCAPE)[0]
                starts = (rest[:n] for n in range(1, len(rest) + 1))
                found = [self.ids[start] for start in starts if start in self.ids]
            self._allowed[at] = masks.token_ids(found)
        return self._allowed[at]

    def after(self, at: int, token: int) -> int | None:
        """Return the position after a token; None if it does not belong here."""
        text = self.texts[token] if token < len(self.texts) else b""
        unit = text or mark_unit(token)
        return at + len(unit) if self.units.startswith(unit, at) else None


_JSON = {escape: text.encode() for escape, text in zip(b'"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True)}
"""By the byte after a backslash: what the escape stands for."""
_PYTHON = {byte: text for byte, text in _JSON.items() if byte != ord("/")} | {ord("'"): b"'"}
WRITABLE = r"[^\x00-\x07\x0b\x0e-\x1f]"
"""A character that has an escape in a quoted text, or is written as it is."""
_ESCAPES: Mapping[Writing, Mapping[int, bytes]] = {"json": _JSON, "python": _PYTHON}
NEAR = 2
"""Bytes of the forbidden text from which on it is checked that it can be avoided."""
PROBES = (b" ", b"a", b"1", b"\n", b"*")
MAX_TEXTS = 64
"""Maximum number of texts whose openings, closings and other tokens are cached."""
_QUOTE, _BACKSLASH, _FIRST_PRINTABLE = 0x22, 0x5C, 0x20
_SPECIAL = re.compile(rb'["\\\x00-\x1f]')


class View:
    """A vocabulary in which each token stands for the text that it spells in a writing."""

    def __init__(self, tokenizer: llguidance.LLTokenizer, writing: Writing) -> None:
        """Takes about a second for a large vocabulary, unless the writing is raw."""
        self.writing = writing
        self.tokenizer = tokenizer
        self.texts: Sequence[bytes] = [
            b"" if tokenizer.is_special_token(at) else bytes(tokenizer.decode_bytes([at]))
            for at in range(tokenizer.vocab_size)
        ]
        """The bytes of each token; empty for special tokens."""
        self.spelled = [*map(self._spelled_by, self.texts)]
        """What each token spells; empty if it is no part of a text."""
        self.plain = _row(self.spelled)
        """The tokens that are parts of a text."""
        self.escaped: BitmaskRow | None = None
        """The tokens that are parts of a text after a backslash; None if there are no escapes."""
        self.offset = words_per_row(len(self.texts)) * 32
        """What is added to the id of a token after a backslash."""
        self.split = masks.token_ids(())
        """The tokens that end in a backslash."""
        self.split_offset, self.ways = 2 * self.offset, 0
        """The place of their texts, one row of `ways` for each: without the backslash, and with
        each escape."""
        if writing != "raw":
            self._add_escapes(_ESCAPES[writing])
        self._sorted = sorted((text, at) for at, text in enumerate(self.texts) if text)
        self._ids = {text: at for at, text in enumerate(self.spelled) if text}
        """By text: a token that spells it."""
        self.ids = {text: at for at, text in enumerate(self.texts) if text}
        """By bytes: a token that has them."""
        self._split_rows = {int(token): at for at, token in enumerate(self.split)}
        self.closings = lru_cache(MAX_TEXTS)(self._closings)
        self.openings = lru_cache(MAX_TEXTS)(self._openings)
        self.completing = lru_cache(MAX_TEXTS)(self._completing)
        self.approaching = lru_cache(MAX_TEXTS)(self._approaching)

    def _add_escapes(self, escapes: Mapping[int, bytes]) -> None:
        escaped = [
            unescaped(b"\\" + text, escapes) if text[:1] and text[0] in escapes else b""
            for text in self.texts
        ]
        split: list[int] = []
        ways: list[bytes] = []
        for token, text in enumerate(self.texts):
            if self.spelled[token] or not text.endswith(b"\\"):
                continue
            begin = unescaped(text[:-1], escapes)
            if begin or len(text) == 1:
                split.append(token)
                ways += [begin, *(begin + escape for escape in escapes.values())]
        padding = [b""] * (self.offset - len(self.texts))
        tokens = Tokens(
            [*self.spelled, *padding, *escaped, *padding, *ways], end=self.tokenizer.eos_token
        )
        wrapper = llguidance.TokenizerWrapper(tokens)
        self.tokenizer = llguidance.LLTokenizer(wrapper, n_vocab=len(tokens.tokens))
        self.escaped = _row(escaped)
        self.split, self.ways = masks.token_ids(split), 1 + len(escapes)

    def before_backslash(self, token: int) -> int | None:
        """Return the place of the text of a token without the backslash in which it ends; None if
        it does not end in one."""
        at = self._split_rows.get(token)
        return None if at is None else self.split_offset + at * self.ways

    def is_backslash(self, token: int) -> bool:
        return self.texts[token] == b"\\"

    def possible_splits(self, found: BitmaskRow) -> TokenIds:
        """Return the tokens that end in a backslash after which an escape is possible. `found`: the
        mask over the view."""
        bits = np.unpackbits(found[self.split_offset // 32 :].view(np.uint8), bitorder="little")
        rows = bits[: len(self.split) * self.ways].reshape(-1, self.ways)
        return self.split[rows[:, 1:].any(axis=1)]

    def _closings(self, after: bytes) -> dict[int, tuple[int, int]]:
        """Return the tokens that end an input and go on with the text after it: by token, a token
        that spells the part of the input alone, and the number of bytes of the text after it."""
        found: dict[int, tuple[int, int]] = {}
        first = after[:1]
        for text, token in self._sorted:
            at = text.find(first, 1) if first else -1
            while at > 0:
                if after.startswith(text[at:]):
                    spelled = self._spelled_by(text[:at])
                    if spelled in self._ids:
                        found[token] = self._ids[spelled], len(text) - at
                    break
                at = text.find(first, at + 1)
        return found

    def joints(self, before: bytes, after: bytes) -> list[int]:
        """Return the tokens that go on from the text before an empty input to the text after it."""
        text, lengths = before + after, range(len(before) + 1, len(before) + len(after) + 1)
        return [self.ids[text[:n]] for n in lengths if text[:n] in self.ids]

    def _spelled_by(self, text: bytes) -> bytes:
        return text if self.writing == "raw" else unescaped(text, _ESCAPES[self.writing])

    def _completing(self, text: bytes, begun: int) -> BitmaskRow:
        """Return the tokens that complete `text`, of which `begun` bytes are written; with 0, those
        that contain it."""
        rest = text[begun:]
        found = (
            token
            for token, each in enumerate(self.texts)
            if (each.startswith(rest) if begun else rest in each)
        )
        return masks.pack(found, len(self.texts))

    def _approaching(self, text: bytes, begun: int) -> TokenIds:
        """Return the tokens after which at least `NEAR` bytes of `text` are written, but not all,
        if `begun` bytes are written before them."""
        ends = [text[:n] for n in range(NEAR, len(text))]
        if begun:
            ends = [end[begun:] for end in ends if len(end) > begun]
            return masks.token_ids([self.ids[end] for end in ends if end in self.ids])
        return masks.token_ids(
            [at for at, each in enumerate(self.texts) if each.endswith((*ends,))]
        )

    def probes(self) -> list[int]:
        """Return tokens that often can continue a text."""
        return [self.ids[each] for each in PROBES if each in self.ids]

    def _openings(self, text: bytes) -> dict[int, int]:
        """Return the tokens that begin with `text` and go on with a part of an input: by token, a
        token that spells that part alone."""
        found: dict[int, int] = {}
        at = bisect_left(self._sorted, (text, -1))
        while at < len(self._sorted) and self._sorted[at][0].startswith(text):
            whole, token = self._sorted[at]
            spelled = self._spelled_by(whole[len(text) :])
            if spelled in self._ids:
                found[token] = self._ids[spelled]
            at += 1
        return found

    def mask(self, matcher: llguidance.LLMatcher) -> BitmaskRow:
        """Return the mask of a matcher over the view; empty if it has stopped."""
        found = np.zeros(words_per_row(self.tokenizer.vocab_size), dtype=np.int32)
        if not matcher.is_stopped():
            llguidance.numpy.fill_next_token_bitmask(matcher, found.reshape(1, -1))
        return found


def _row(texts: Sequence[bytes]) -> BitmaskRow:
    return masks.pack((at for at, text in enumerate(texts) if text), len(texts))


def unescaped(text: bytes, escapes: Mapping[int, bytes]) -> bytes:
    """Return the text that `text` spells; empty if it is no complete part of a string."""
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


class Tokens:
    """A tokenizer in the form of llguidance.TokenizerWrapper. It encodes single bytes only, which
    matching does not need."""

    bos_token_id = None

    def __init__(self, tokens: list[bytes], end: int, special: Sequence[int] = ()) -> None:
        self.tokens = tokens
        self.eos_token_id = end
        self.special_token_ids = special
        self._bytes = {text: at for at, text in reversed([*enumerate(tokens)]) if len(text) == 1}

    def __call__(self, text: Any) -> list[int]:
        raw = text if isinstance(text, bytes) else text.encode()
        return [self._bytes[raw[at : at + 1]] for at in range(len(raw))]
