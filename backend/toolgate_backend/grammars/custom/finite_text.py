"""Whether a grammar of a custom tool has a finite text."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...errors import GrammarRefused
from .definition import Choice, Expression, Name, Repeat, Sequence, Text
from .syntax import parse

START = "start"
MAY_BE_EMPTY = re.compile(r"\[\^|&&|--|~~|\\[pP]")
"""What a regular expression that matches no text has: a class of no characters."""

HasText = Callable[[str], bool]
"""Whether a regular expression, as it is written in Lark, matches any text."""


def check(definition: str, has_text: HasText) -> None:
    """Raises GrammarRefused for syntax beyond Lark's, and if no finite text matches."""
    found = parse(definition)
    known: dict[str, bool] = {}

    def is_finite(body: Expression, finite: set[str]) -> bool:
        match body:
            case Name(name):
                return name in finite
            case Sequence(parts):
                return all(is_finite(part, finite) for part in parts)
            case Choice(options):
                return any(is_finite(option, finite) for option in options)
            case Repeat(part, least):
                return not least or is_finite(part, finite)
            case Text(regex) if MAY_BE_EMPTY.search(regex):
                if regex not in known:
                    known[regex] = has_text(regex)
                return known[regex]
            case _:
                return True

    if START not in found:
        raise GrammarRefused("there is no rule 'start'", "")
    finite: set[str] = set()
    while True:
        more = {name for name, body in found.items() if is_finite(body, finite)}
        if more <= finite:
            break
        finite |= more
    if START not in finite:
        raise GrammarRefused("no finite text matches it", "")
