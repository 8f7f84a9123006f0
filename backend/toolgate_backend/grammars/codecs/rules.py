"""Rules of llguidance's Lark that a codec makes of a schema, and the literals in them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolgate_core.dialects.marks import Marks
from toolgate_core.wire import ResidualKeyword

from ...errors import GrammarRefused
from ..graph.free_strings import NOT_FREE, FreeTexts
from ..graph.text_kinds import RawText

TagText = Literal["json", "either", "text"]
"""JSON; a string, or JSON if it begins with a bracket; a string, or a scalar that looks like one.
"""
MAX_LENGTH = 2_000_000
"""Maximum length of a grammar, in characters. Definitions are repeated in each value that uses
them. The engine makes the same grammar again, in its own memory; of 722 real tools, none needs more
than 25,000."""
OTHERS = b""


def tag_text(types: Collection[str]) -> TagText:
    """What the text of a value of these types is."""
    if "string" not in types:
        return "json"
    return "either" if {"object", "array"} & set(types) else "text"


@dataclass
class Rules:
    """A grammar in the making. `start` of the whole grammar refers to the rule `arguments`."""

    lines: list[str] = field(default_factory=list)
    residual: list[ResidualKeyword] = field(default_factory=list)
    """The keywords of the tool's schema that the rules do not enforce, besides those that its
    preparation removed."""
    tags: dict[bytes, TagText] = field(default_factory=dict)
    """What the text in tags is, by name, as it is written; `OTHERS`: for all other names."""
    free: FreeTexts = NOT_FREE
    """What is proven about the values."""
    raw: RawText | None = None
    """The kind of raw strings that are not constrained."""
    has_constrained: bool = False
    """Whether a raw string is constrained."""
    _names: dict[str, str] = field(default_factory=dict)
    _length: int = 0

    def add(self, kind: str, body: str, attribute: str = "") -> str:
        """A rule or terminal with this body; the name of an earlier one if there is one. `kind` is
        the beginning of the name: in capitals for a terminal. `attribute` is one of llguidance's,
        such as `[lazy]`."""
        whole = f"{attribute}: {body}"
        if whole not in self._names:
            self._names[whole] = f"{kind}_{len(self._names)}"
            self._append(self._names[whole] + whole)
        return self._names[whole]

    def define(self, name: str, body: str) -> None:
        self._append(f"{name}: {body}")

    def _append(self, line: str) -> None:
        """Raises GrammarRefused if the grammar is too long."""
        self._length += len(line)
        if self._length > MAX_LENGTH:
            raise GrammarRefused(f"its grammar has more than {MAX_LENGTH:,} characters", "")
        self.lines.append(line)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def literal(text: str, marks: Mapping[str, int]) -> str:
    """A text of a dialect in llguidance's Lark. `marks` maps the text of each mark to its token id.

    Marks are written as `<[id]>`, because a string of Lark never matches a special token. The
    result can be used in rules, and in terminals if the text contains no mark. It is empty for the
    empty text.
    """
    encoder = Marks(marks)
    return encoded_literal(encoder.encode(text), encoder)


def encoded_literal(encoded: str, marks: Marks) -> str:
    """As `literal`, for a text from `Marks.encode`."""
    parts: list[str] = []
    text = ""
    for char in encoded:
        if not marks.is_mark(char):
            text += char
            continue
        if text:
            parts.append(quoted(text))
        parts.append(f"<[{marks.token(char)}]>")
        text = ""
    if text:
        parts.append(quoted(text))
    return " ".join(parts)


def quoted(text: str) -> str:
    """A text without marks as a string of Lark, which cannot contain all characters as they are."""
    return json.dumps(text)
