"""The common interface of the grammars of codecs, and the literals in them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from toolgate_core.dialects.marks import Marks


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
