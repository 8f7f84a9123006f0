"""A grammar of a custom tool is refused beyond Lark's syntax, and if it has no finite text.

llguidance has read a definition before, so that its errors come first. Lark's own reader reads it
again for its structure, and refuses what llguidance adds to Lark: special tokens, nested grammars,
attributes and parameters. Of these, only counts such as `{2,5}` are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from lark import Tree
from lark.exceptions import LarkError
from lark.load_grammar import load_grammar

from ...errors import GrammarRefused

START = "start"
MAX_DEPTH = 200
"""Maximum nesting of parentheses, which Lark reads slowly."""
MAY_BE_EMPTY = re.compile(r"\[\^|&&|--|~~|\\[pP]")
"""What a regular expression that matches no text has: a class of no characters."""
_COUNTS = re.compile(
    r'"(?:\\.|[^"\\\n])*"|/(?!/)(?:\\/|\\\\|[^/])*?/|//[^\n]*|\#[^\n]*|\{(?P<least>\d*),?\d*\}'
)
"""Counts outside of strings, regular expressions and comments."""
_PLACE = re.compile(r"line (\d+),? column (\d+)")

HasText = Callable[[str], bool]
"""Whether a regular expression, as it is written in Lark, matches any text."""


def check(definition: str, has_text: HasText) -> None:
    """Raise GrammarRefused for syntax beyond Lark's, and if no finite text matches."""
    bare = _COUNTS.sub("", definition)
    depth = max(accumulate((char in "([") - (char in ")]") for char in bare), default=0)
    if depth > MAX_DEPTH:
        raise GrammarRefused(f"nested deeper than {MAX_DEPTH} levels", "")
    try:
        bodies = _read(definition)
        finite: set[str] = set()
        body = _Body(finite, has_text)
        while more := {name for name in bodies.keys() - finite if body.is_finite(bodies[name])}:
            finite |= more
    except RecursionError as error:
        raise GrammarRefused("nested too deeply", "") from error
    if START not in finite:
        raise GrammarRefused("no finite text matches it", "")


def _read(definition: str) -> dict[str, Tree[Any]]:
    """Return the bodies of rules and terminals by name. Raise GrammarRefused, whose reason has the
    line and the column."""
    try:
        loaded, _ = load_grammar(_COUNTS.sub(_plain, definition), "it", [], False)  # type: ignore[no-untyped-call]
    except LarkError as error:
        found = _PLACE.search(str(error))
        place = f"line {found[1]}, column {found[2]}: " if found else ""
        raise GrammarRefused(f"{place}only Lark's own syntax is supported", "") from error
    rules = {str(name): body for name, _, body, _ in loaded.rule_defs}
    return rules | {str(name): body for name, (body, _) in loaded.term_defs}


def _plain(found: re.Match[str]) -> str:
    """Return a count as a quantifier of Lark, of the same length; other text as it is."""
    if found["least"] is None:
        return found[0]
    return ("+" if found["least"].strip("0") else "*").ljust(len(found[0]))


class _Body:
    """Decides which bodies of rules and terminals have a text, if those named in `finite` have."""

    def __init__(self, finite: set[str], has_text: HasText) -> None:
        self._finite = finite
        self._has_text = has_text
        self._known: dict[str, bool] = {}

    def is_finite(self, tree: Tree[Any]) -> bool:
        first = tree.children[0] if tree.children else None
        match tree.data:
            case "expansions":
                return any(map(self.is_finite, tree.children))
            case "expansion":
                return all(map(self.is_finite, tree.children))
            case "maybe":
                return True
            case "expr" if str(tree.children[1]) in ("?", "*"):
                return True
            case "expr" if str(tree.children[1]) == "~" and str(tree.children[2]) == "0":
                return True
            case "literal" if str(first).startswith("/") and MAY_BE_EMPTY.search(str(first)):
                return self._matches(str(first))
            case "literal" | "range":
                return True
        return self.is_finite(first) if isinstance(first, Tree) else first.name in self._finite

    def _matches(self, regex: str) -> bool:
        if regex not in self._known:
            self._known[regex] = self._has_text(regex)
        return self._known[regex]
