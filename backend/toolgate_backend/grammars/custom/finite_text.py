"""Whether a grammar of a custom tool has a finite text."""

from __future__ import annotations

from ...errors import GrammarRefused
from .definition import Choice, Expression, Name, Repeat, Sequence
from .syntax import parse

START = "start"


def check(definition: str) -> None:
    """Raises GrammarRefused for syntax beyond Lark's, and if no finite text matches."""
    found = parse(definition)
    if START not in found:
        raise GrammarRefused("there is no rule 'start'", "")
    finite: set[str] = set()
    while True:
        more = {name for name, body in found.items() if _is_finite(body, finite)}
        if more <= finite:
            break
        finite |= more
    if START not in finite:
        raise GrammarRefused("no finite text matches it", "")


def _is_finite(body: Expression, finite: set[str]) -> bool:
    match body:
        case Name(name):
            return name in finite
        case Sequence(parts):
            return all(_is_finite(part, finite) for part in parts)
        case Choice(options):
            return any(_is_finite(option, finite) for option in options)
        case Repeat(part, least):
            return not least or _is_finite(part, finite)
        case _:
            return True
