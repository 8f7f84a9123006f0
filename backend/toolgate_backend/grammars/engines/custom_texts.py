"""The fixed texts around the input of a custom tool, token by token, and the vocabulary of the
matcher of the input: the texts that tokens spell inside a quoted string.

A grammar of text is matched over this vocabulary, so it applies to the text and not to its escapes.
docs/internals/token-graph.md has a picture of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import llguidance
import llguidance.numpy
import numpy as np

from toolgate_core.custom_tools import INPUT
from toolgate_core.dialects.arguments.tagged import CDATA, CDATA_END
from toolgate_core.dialects.dialect import Codec, FlatTags, GemmaValues, Json, NestedTags, Pythonic
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
    """The text at which readers end a raw input, so that it cannot contain it; not encoded."""


def input_texts(codec: Codec, marks: Marks) -> InputTexts:
    """Return the texts of arguments that have only an input."""
    match codec:
        case Json(key_separator=separator):
            return InputTexts(f'{{"{INPUT}"{separator}"', '"}', "json")
        case Pythonic():
            return InputTexts(f'{INPUT}="', '"', "python")
        case FlatTags():
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
    """A text of a dialect, which may have marks. A `written` is the number of bytes of `units` that
    the tokens so far have."""

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

    def allowed(self, written: int) -> TokenIds:
        """Return the tokens with which the text can go on."""
        if written not in self._allowed:
            rest = self.units[written:]
            if rest.startswith(ESCAPE):
                tokens = [int(rest[2 : rest.index(b"]")])]
            else:
                rest = rest.partition(ESCAPE)[0]
                starts = (rest[:length] for length in range(1, len(rest) + 1))
                tokens = [self.ids[start] for start in starts if start in self.ids]
            self._allowed[written] = masks.token_ids(tokens)
        return self._allowed[written]

    def after(self, written: int, token: int) -> int | None:
        """Return how much is written after a token; None if it does not belong here."""
        text = self.texts[token] if token < len(self.texts) else b""
        unit = text or mark_unit(token)
        return written + len(unit) if self.units.startswith(unit, written) else None


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
_SPECIAL = re.compile(rb'["\\\x00-\x1f]')
_PIECES = re.compile(rb'\\.|[^"\\\x00-\x1f]+', re.DOTALL)
"""Escapes, and the text between them."""


class Closings(NamedTuple):
    """Tokens that end an input and go on with the text after it."""

    by_token: Mapping[int, tuple[int, int]]
    """The part of the input alone, and the number of bytes of the text after it."""
    tokens: TokenIds
    parts: TokenIds


class View:
    """The vocabulary of the matcher of an input. Its tokens are *parts*: the text that a token of
    the model spells in a writing, by its id; what it spells after a backslash (`after_backslash`);
    and what a token that ends in a backslash may become (`before_backslash`)."""

    def __init__(self, tokenizer: llguidance.LLTokenizer, writing: Writing) -> None:
        """Takes about a second for a large vocabulary, unless the writing is raw."""
        self.writing = writing
        self.tokenizer = tokenizer
        self.texts: Sequence[bytes] = [
            b"" if tokenizer.is_special_token(token) else bytes(tokenizer.decode_bytes([token]))
            for token in range(tokenizer.vocab_size)
        ]
        """The bytes of each token; empty for special tokens."""
        self._spelled = [*map(self._spelled_by, self.texts)]
        """What each token spells; empty if it is no part of a text."""
        self.plain = _filled(self._spelled)
        """The tokens that are parts of a text."""
        self._escaped: BitmaskRow = np.zeros_like(self.plain)
        """The tokens that are parts of a text after a backslash."""
        self._escaped_begin = words_per_row(len(self.texts)) * 32
        """The first part of a token after a backslash."""
        self._split = masks.token_ids(())
        """The tokens that end in a backslash."""
        self._split_begin, self._split_parts = 2 * self._escaped_begin, 1
        """The first part of `_split`, and the number of parts of each of them: the text without
        the backslash, and with each escape."""
        if writing != "raw":
            self._add_escapes(_ESCAPES[writing])
        self._sorted = sorted((text, token) for token, text in enumerate(self.texts) if text)
        self._parts = {text: part for part, text in enumerate(self._spelled) if text}
        """By text: a part that is this text."""
        self.ids = {text: token for token, text in enumerate(self.texts) if text}
        """By bytes: a token that has them."""
        self._split_numbers = {int(token): number for number, token in enumerate(self._split)}
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
        split_texts: list[bytes] = []
        for token, text in enumerate(self.texts):
            if self._spelled[token] or not text.endswith(b"\\"):
                continue
            begin = unescaped(text[:-1], escapes)
            if begin or len(text) == 1:
                split.append(token)
                split_texts += [begin, *(begin + escape for escape in escapes.values())]
        padding = [b""] * (self._escaped_begin - len(self.texts))
        parts = [*self._spelled, *padding, *escaped, *padding, *split_texts]
        wrapper = llguidance.TokenizerWrapper(Tokens(parts, end=self.tokenizer.eos_token))
        self.tokenizer = llguidance.LLTokenizer(wrapper, n_vocab=len(parts))
        self._escaped = _filled(escaped)
        self._split, self._split_parts = masks.token_ids(split), 1 + len(escapes)

    def after_backslash(self, token: int) -> int:
        """Return the part of a token after a backslash."""
        return self._escaped_begin + token

    def before_backslash(self, token: int) -> int | None:
        """Return the part of a token without the backslash at its end; None if there is none."""
        number = self._split_numbers.get(token)
        return None if number is None else self._split_begin + number * self._split_parts

    def is_backslash(self, token: int) -> bool:
        return self.texts[token] == b"\\"

    def plain_tokens(self, mask: BitmaskRow, width: int) -> BitmaskRow:
        """Return the tokens whose text a mask of parts allows. `width`: words of the result."""
        return mask[:width] & self.plain[:width]

    def escaped_tokens(self, mask: BitmaskRow, width: int) -> BitmaskRow:
        """Return the tokens whose text after a backslash a mask of parts allows."""
        return mask[self._escaped_begin // 32 :][:width] & self._escaped[:width]

    def split_tokens(self, mask: BitmaskRow) -> TokenIds:
        """Return the tokens that end in a backslash, if a mask allows an escape after it."""
        if not len(self._split):
            return self._split
        bits = np.unpackbits(mask[self._split_begin // 32 :].view(np.uint8), bitorder="little")
        parts = bits[: len(self._split) * self._split_parts].reshape(-1, self._split_parts)
        return self._split[parts[:, 1:].any(axis=1)]

    def _closings(self, after: bytes) -> Closings:
        """`after`: the text after the input."""
        closings: dict[int, tuple[int, int]] = {}
        first = after[:1]
        for text, token in self._sorted:
            end = text.find(first, 1) if first else -1
            while end > 0:
                if after.startswith(text[end:]):
                    part = self._parts.get(self._spelled_by(text[:end]))
                    if part is not None:
                        closings[token] = part, len(text) - end
                    break
                end = text.find(first, end + 1)
        parts = np.array([part for part, _ in closings.values()], dtype=np.int64)
        return Closings(closings, np.array([*closings], dtype=np.int64), parts)

    def joints(self, before: bytes, after: bytes) -> list[int]:
        """Return the tokens that go on from the text before an empty input to the text after it."""
        text, lengths = before + after, range(len(before) + 1, len(before) + len(after) + 1)
        return [self.ids[text[:n]] for n in lengths if text[:n] in self.ids]

    def _spelled_by(self, text: bytes) -> bytes:
        return text if self.writing == "raw" else unescaped(text, _ESCAPES[self.writing])

    def _completing(self, text: bytes, begun: int) -> BitmaskRow:
        """Return the tokens that complete `text`, of which `begun` bytes are written; with 0, those
        that contain it."""
        rest, texts = text[begun:], enumerate(self.texts)
        if begun:
            return masks.pack(
                (at for at, whole in texts if whole.startswith(rest)), len(self.texts)
            )
        return masks.pack((at for at, whole in texts if rest in whole), len(self.texts))

    def _approaching(self, text: bytes, begun: int) -> TokenIds:
        """Return the tokens after which at least `NEAR` bytes of `text` are written, but not all,
        if `begun` bytes are written before them."""
        ends = [text[:length] for length in range(NEAR, len(text))]
        if begun:
            ends = [end[begun:] for end in ends if len(end) > begun]
            return masks.token_ids([self.ids[end] for end in ends if end in self.ids])
        texts = enumerate(self.texts)
        return masks.token_ids(token for token, whole in texts if whole.endswith((*ends,)))

    def probes(self) -> list[int]:
        """Return tokens that often can continue a text."""
        return [self.ids[each] for each in PROBES if each in self.ids]

    def _openings(self, text: bytes) -> dict[int, int]:
        """Return the tokens that begin with `text` and go on with a part of an input: the part."""
        openings: dict[int, int] = {}
        for whole, token in self._sorted[bisect_left(self._sorted, (text, -1)) :]:
            if not whole.startswith(text):
                break
            part = self._parts.get(self._spelled_by(whole[len(text) :]))
            if part is not None:
                openings[token] = part
        return openings

    def mask(self, matcher: llguidance.LLMatcher) -> BitmaskRow:
        """Return the mask of parts of a matcher; empty if it has stopped."""
        mask = np.zeros(words_per_row(self.tokenizer.vocab_size), dtype=np.int32)
        if not matcher.is_stopped():
            llguidance.numpy.fill_next_token_bitmask(matcher, mask.reshape(1, -1))
        return mask


def _filled(texts: Sequence[bytes]) -> BitmaskRow:
    return masks.pack((token for token, text in enumerate(texts) if text), len(texts))


def unescaped(text: bytes, escapes: Mapping[int, bytes]) -> bytes:
    """Return the text that `text` spells; empty if it is no complete part of a string."""
    if not _SPECIAL.search(text):
        return text
    pieces = _PIECES.findall(text)
    spelled = [escapes.get(piece[1], b"") if piece[:1] == b"\\" else piece for piece in pieces]
    complete = sum(map(len, pieces)) == len(text) and all(spelled)
    return b"".join(spelled) if complete else b""


class Tokens:
    """A tokenizer in the form of llguidance.TokenizerWrapper. It encodes single bytes only, which
    matching does not need."""

    bos_token_id = None

    def __init__(self, tokens: list[bytes], end: int, special: Sequence[int] = ()) -> None:
        self.tokens = tokens
        self.eos_token_id = end
        self.special_token_ids = special
        self._bytes = {text: id for id, text in reversed([*enumerate(tokens)]) if len(text) == 1}

    def __call__(self, text: Any) -> list[int]:
        raw = text if isinstance(text, bytes) else text.encode()
        return [self._bytes[raw[at : at + 1]] for at in range(len(raw))]
