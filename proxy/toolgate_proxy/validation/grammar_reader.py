"""Reads the input of a custom tool by its grammar, with Python's regular expressions and Lark's
reading of grammars. Nothing here is shared with the masks of the backend.

A grammar that Python or Lark can't read is not read: `read_grammar` returns None, and the masks
alone enforce it. Examples are `\\p{L}`, and rules that only llguidance has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import lark
from lark.grammar import Terminal
from lark.lexer import TerminalDef
from lark.load_grammar import load_grammar

from toolgate_core.custom_tools import Grammar

START = "start"
MAX_CACHED = 64

Matches = Callable[[str], bool]
_ANCHOR = re.compile(r"(?:\\.|\[(?:\\.|[^\]\\])*\])|(?P<anchor>[\^$]|\\[AbBzZ])", re.DOTALL)
_SHORTHAND = re.compile(r"\\[wWdDsS]|\(\?[a-z]*i")
"""What Rust and Python define differently beyond ASCII."""


@lru_cache(maxsize=MAX_CACHED)
def read_grammar(grammar: Grammar) -> Matches | None:
    """Whether a text matches a grammar; None if the grammar can't be read."""
    try:
        if grammar.syntax == "regex":
            pattern = re.compile(grammar.definition)
            return _trusted(lambda text: pattern.fullmatch(text) is not None, grammar.definition)
        reader = _Reader(grammar.definition)
    except (re.error, lark.exceptions.LarkError, _NotRead, RecursionError, OverflowError):
        return None
    return _trusted(reader.matches, " ".join(reader.patterns))


def _trusted(matches: Matches, patterns: str) -> Matches:
    """A negative result is not trusted if it may come from a difference of the two languages."""
    if not _SHORTHAND.search(patterns):
        return matches
    return lambda text: matches(text) or not text.isascii()


class _NotRead(Exception):
    pass


def _regex(terminal: TerminalDef) -> str:
    regex = terminal.pattern.to_regexp()
    if any(found["anchor"] for found in _ANCHOR.finditer(regex)):
        raise _NotRead  # Python would match an anchor against the whole input
    return regex


def _longest(pattern: re.Pattern[str], text: str, at: int) -> list[int]:
    found = pattern.match(text, at)
    return [] if found is None else [found.end()]


def _every(pattern: re.Pattern[str], text: str, at: int) -> list[int]:
    if pattern.match(text, at) is None:
        return []
    return [end for end in range(at, len(text) + 1) if pattern.fullmatch(text, at, end)]


Ends = Callable[[re.Pattern[str], str, int], list[int]]
"""The positions at which a match of a pattern can end that begins at a position."""
Symbol = str | re.Pattern[str]
"""The name of a rule, or the pattern of a terminal."""
_Item = tuple[int, int, int]
"""A rule's number, the position in it, and the position in the text at which it began."""


class _Reader:
    """A recognizer by Earley's algorithm, without a lexer: the text of a terminal is any match of
    its pattern. It first tries the longest match of each terminal only, as the lexer of the masks
    does, which is fast, and then all of them."""

    def __init__(self, definition: str) -> None:
        loaded, _ = load_grammar(definition, "definition", [], False)  # type: ignore[no-untyped-call]
        if any(tree is None for _, (tree, _) in loaded.term_defs):
            raise _NotRead  # `%declare` names a terminal without a pattern
        terminals, rules, ignored = loaded.compile([START], "*")
        regexes = {each.name: _regex(each) for each in terminals}
        self.patterns = [*regexes.values()]
        compiled = {name: re.compile(regex) for name, regex in regexes.items()}
        self._rules: list[tuple[str, tuple[Symbol, ...]]] = [
            (
                rule.origin.name,
                tuple(
                    compiled[symbol.name] if isinstance(symbol, Terminal) else symbol.name
                    for symbol in rule.expansion
                ),
            )
            for rule in rules
        ]
        self._ignored = [compiled[name] for name in ignored]
        self._numbers: dict[str, list[int]] = {}
        for number, (name, _) in enumerate(self._rules):
            self._numbers.setdefault(name, []).append(number)

    def matches(self, text: str) -> bool:
        return self._recognizes(text, _longest) or self._recognizes(text, _every)

    def _recognizes(self, text: str, ends: Ends) -> bool:
        columns: list[set[_Item] | None] = [None] * (len(text) + 1)
        columns[0] = {(number, 0, 0) for number in self._numbers.get(START, ())}
        waiting: dict[tuple[int, str], set[_Item]] = {}
        completed: set[tuple[int, str, int]] = set()
        for at in range(len(text) + 1):
            column = columns[at]
            if column is None:
                continue
            columns[at] = set()
            self._close(at, column, columns, text, ends, waiting, completed)
        return (0, START, len(text)) in completed

    def _close(
        self,
        at: int,
        column: set[_Item],
        columns: list[set[_Item] | None],
        text: str,
        ends: Ends,
        waiting: dict[tuple[int, str], set[_Item]],
        completed: set[tuple[int, str, int]],
    ) -> None:
        """Everything that follows from the items at one position."""
        agenda, seen = [*column], set(column)
        found: dict[re.Pattern[str], list[int]] = {}

        def add(item: _Item) -> None:
            if item not in seen:
                seen.add(item)
                agenda.append(item)

        def move(item: _Item, end: int) -> None:
            if end == at:
                add(item)
                return
            target = columns[end]
            if target is None:
                target = columns[end] = set()
            target.add(item)

        for pattern in self._ignored:
            for end in ends(pattern, text, at):
                if end > at:
                    for item in column:
                        move(item, end)
        while agenda:
            item = agenda.pop()
            number, dot, origin = item
            name, body = self._rules[number]
            if dot == len(body):
                if (origin, name, at) in completed:
                    continue
                completed.add((origin, name, at))
                for waits in [*waiting.get((origin, name), ())]:
                    add((waits[0], waits[1] + 1, waits[2]))
                continue
            symbol = body[dot]
            if isinstance(symbol, str):
                waiting.setdefault((at, symbol), set()).add(item)
                for begun in self._numbers.get(symbol, ()):
                    add((begun, 0, at))
                if (at, symbol, at) in completed:
                    add((number, dot + 1, origin))
                continue
            if symbol not in found:
                found[symbol] = ends(symbol, text, at)
            for end in found[symbol]:
                move((number, dot + 1, origin), end)
