"""Reads the input of a custom tool by its grammar, with RE2's regular expressions and Lark's
reading of grammars. Nothing here is shared with the masks of the backend.

RE2 takes time that is linear in the text, whatever the client's expression. A grammar that RE2 or
Lark cannot read, or that RE2 reads differently than llguidance, is not read: `read_grammar` returns
None, and the masks alone enforce it. Examples are intersections of classes (`[a-z&&[^b]]`), and
rules that only llguidance has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

import lark
import re2
from lark.grammar import Terminal
from lark.lexer import TerminalDef
from lark.load_grammar import load_grammar

from toolgate_core.custom_tools import Grammar

START = "start"
MAX_CACHED = 64
MAX_ENDS = 256
"""Results of patterns that are kept, those at one position of a text."""

Matches = Callable[[str], bool]
_UNREADABLE = (re.error, re2.error, lark.exceptions.LarkError, RecursionError, OverflowError)


_Pattern = re.Pattern[bytes]
"""A compiled expression, of RE2."""
_CLASS = re.compile(
    r"\[\^?\]?(?P<inside>(?:\\.|\[:\^?\w+:\]|[^\]\\])*+)\]|\\.|(?P<empty_least>\{,)", re.DOTALL
)
_SETS = re.compile(r"\\.|\[:\^?\w+:\]|(?P<set>\[|&&|--|~~)", re.DOTALL)
_ANCHOR = re.compile(r"(?P<anchor>[\^$]|\\[AbBz<>])|\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_SHORTHAND = re.compile(r"\\[wWdDsSpP]|\(\?[a-z]*i")
"""What Rust and RE2 define differently beyond ASCII."""
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.longest_match = True
_VERTICAL_TAB = "\v"
"""`\\s` matches it in Rust, but not in RE2."""


@lru_cache(maxsize=MAX_CACHED)
def read_grammar(grammar: Grammar) -> Matches | None:
    """Return whether a text matches a grammar; None if the grammar cannot be read."""
    try:
        if grammar.syntax == "regex":
            pattern = _compiled(grammar.definition)
            return _trusted(lambda text: pattern.fullmatch(text) is not None, grammar.definition)
        reader = _Recognizer(grammar.definition)
    except (*_UNREADABLE, _NotRead):
        return None
    return _trusted(reader.matches, " ".join(reader.patterns))


def _trusted(matches: Callable[[bytes], bool], patterns: str) -> Matches:
    """Distrust a negative result if it may come from a difference of the two languages."""
    differ = _SHORTHAND.search(patterns) is not None

    def trusted(text: str) -> bool:
        if matches(text.encode()):
            return True
        return differ and (not text.isascii() or _VERTICAL_TAB in text)

    return trusted


class _NotRead(Exception):
    pass


def _compiled(regex: str) -> _Pattern:
    """Raise _NotRead if RE2 would read it differently than Rust."""
    pattern: _Pattern = re2.compile(regex.encode(), _OPTIONS)
    for char_class in _CLASS.finditer(regex):
        inside = char_class["inside"] or ""
        if char_class["empty_least"] or any(each["set"] for each in _SETS.finditer(inside)):
            raise _NotRead
    return pattern


def _regex(terminal: TerminalDef) -> str:
    regex = terminal.pattern.to_regexp()
    if any(match["anchor"] for match in _ANCHOR.finditer(regex)):
        raise _NotRead  # RE2 would match an anchor against the whole input
    return regex


def _longest(pattern: _Pattern, text: bytes, at: int) -> list[int]:
    match = pattern.match(text, at)
    return [] if match is None else [match.end()]


def _every(pattern: _Pattern, text: bytes, at: int) -> list[int]:
    if pattern.match(text, at) is None:
        return []
    return [end for end in range(at, len(text) + 1) if pattern.fullmatch(text, at, end)]


Ends = Callable[[_Pattern, bytes, int], list[int]]
"""The positions at which a match of a pattern can end that begins at a position."""
Symbol = str | _Pattern
"""The name of a rule, or the pattern of a terminal."""
_Item = tuple[int, int, int]
"""A rule's number, the position in it, and the position in the text at which it began."""


class _Recognizer:
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
        compiled = {name: _compiled(regex) for name, regex in regexes.items()}
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

    def matches(self, text: bytes) -> bool:
        return self._recognizes(text, _longest) or self._recognizes(text, _every)

    def _recognizes(self, text: bytes, ends: Ends) -> bool:
        columns = {0: {(number, 0, 0) for number in self._numbers.get(START, ())}}
        """By position: the items there. Those behind the current one are incomplete."""
        chart = _Chart(text, ends)
        for at in range(len(text) + 1):
            agenda = [*columns.get(at, ())]
            advanced = [
                (item, end)
                for pattern in self._ignored
                for end in chart.ends_of(pattern, at)
                if end > at
                for item in agenda
            ]
            while agenda or advanced:
                for item, end in advanced:
                    column = columns.setdefault(end, set())
                    if item not in column:
                        column.add(item)
                        agenda += [item] if end == at else []
                advanced = [*self._next(agenda.pop(), at, chart)] if agenda else []
            columns.pop(at, None)
        return (0, START, len(text)) in chart.completed

    def _next(self, item: _Item, at: int, chart: _Chart) -> Iterator[tuple[_Item, int]]:
        """Yield the items that follow from one at a position, with theirs."""
        number, dot, origin = item
        name, body = self._rules[number]
        if dot == len(body):
            if (origin, name, at) not in chart.completed:
                chart.completed.add((origin, name, at))
                for waiting, place, begun in [*chart.waiting.get((origin, name), ())]:
                    yield (waiting, place + 1, begun), at
            return
        symbol, moved = body[dot], (number, dot + 1, origin)
        if not isinstance(symbol, str):
            for end in chart.ends_of(symbol, at):
                yield moved, end
            return
        chart.waiting.setdefault((at, symbol), set()).add(item)
        for rule in self._numbers.get(symbol, ()):
            yield (rule, 0, at), at
        if (at, symbol, at) in chart.completed:
            yield moved, at


class _Chart:
    """What is known of one text."""

    def __init__(self, text: bytes, ends: Ends) -> None:
        self.waiting: dict[tuple[int, str], set[_Item]] = {}
        """By position and rule: the items that go on where the rule ends."""
        self.completed: set[tuple[int, str, int]] = set()
        """The rules that match, with the beginnings and ends of their texts."""
        self.ends_of = lru_cache(MAX_ENDS)(lambda pattern, at: ends(pattern, text, at))
