"""Texts in xgrammar's EBNF, which xgrammar reads as they are meant.

xgrammar (0.2.0 to 0.2.9) writes the characters U+0080 to U+00FF as `\\xNN`, and reads all
hexadecimal digits after `\\x`: in `"c\\xf3digo"`, the second character becomes U+0F3D. A literal
therefore ends after such a character if a hexadecimal digit follows.
"""

from __future__ import annotations

import json
import re

import xgrammar

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[A-Za-z_]\w*|.', re.DOTALL)
"""A string, a class of characters, a name or any other character."""
_MISREAD = re.compile(r"(?:[\x80-\xff]|\\x[0-9a-f]{2}|\\u00[0-9a-f]{2})(?=[0-9A-Fa-f])")


def literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # xgrammar reads no pairs of surrogates


def grammar_of(rules: str) -> xgrammar.Grammar:
    return xgrammar.Grammar.from_ebnf(_split(rules))


def grammar_of_schema(schema: str, separators: tuple[str, str]) -> xgrammar.Grammar:
    """Return the grammar that xgrammar makes of a JSON Schema."""
    grammar = xgrammar.Grammar.from_json_schema(
        schema, any_whitespace=False, separators=separators, strict_mode=True
    )
    written = str(grammar)
    return grammar_of(written) if _MISREAD.search(written) else grammar


def _split(rules: str) -> str:
    """Return the rules with two literals in place of each one that xgrammar would misread."""
    return "".join(
        _MISREAD.sub(r'\g<0>" "', token) if token[0] == '"' else token
        for token in (TOKEN.findall(rules) if _MISREAD.search(rules) else [rules])
    )
