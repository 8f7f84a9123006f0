"""Compilation of the grammars of custom tools.

llguidance reads a definition first, so that its errors come first. Lark's own reader reads it again
for its structure, and refuses what llguidance adds to Lark: special tokens, nested grammars,
attributes and parameters. Of these, only counts such as `{2,5}` are read. A definition without a
finite text is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from itertools import accumulate
from typing import Any

import llguidance
from lark import Tree
from lark.exceptions import LarkError
from lark.load_grammar import load_grammar

from toolgate_core.custom_tools import Grammar

from ...errors import GrammarRefused
from ...tokens.call_form import CallForm
from ...tokens.units import units
from .custom_matcher import CustomMatcher, Parts
from .custom_texts import WRITABLE, FixedText, View, Writing, input_texts
from .engine import CompiledGrammar
from .llguidance_matcher import FreshMatcher, can_begin, first_line, new_matcher

_START = "start: "
NO_FORCING = '%llguidance {"no_forcing": true}\n'
"""llguidance allows only the tokenizer's own tokens of forced text, and a view has no tokenizer."""
DEFINITION_ERROR = re.compile(r"(?:at )?(\d+)\((\d+)\): (.*?)(?:\n +\d+ \| .*)?$", re.DOTALL)


class CustomGrammars:
    """Makes the grammars of one vocabulary."""

    def __init__(self, tokenizer: llguidance.LLTokenizer) -> None:
        self._tokenizer = tokenizer
        self._views: dict[Writing, View] = {}

    def compile(self, form: CallForm, name: str, grammar: Grammar) -> CompiledGrammar:
        """Return a grammar for the calls of a custom tool. Raise GrammarRefused, whose reason has
        the line and the column in the definition."""
        source = _lark(grammar)
        checked = llguidance.LLMatcher(self._tokenizer, source, log_level=0)
        if checked.is_error():
            raise GrammarRefused(_definition_error(checked.get_error(), grammar), "")
        if grammar.syntax == "lark":
            check(grammar.definition, self._has_text)
        texts = input_texts(form.codec, form.marks)
        if grammar.syntax == "regex":
            regex = source.removeprefix(_START)
            if not self._has_text(regex):
                raise GrammarRefused("it matches no text", "")
            if texts.writing != "raw":  # so that no mask leads to a character without an escape
                regex = f"{regex} & /(?s:{WRITABLE})*/"
                if not self._has_text(regex):
                    reason = "it matches only texts with control characters that calls cannot have"
                    raise GrammarRefused(reason, "")
                source = f"{_START}TEXT\nTEXT: {regex}"
        before, after = form.grammar_texts(name)
        view = self._view(texts.writing)

        def _fixed(encoded: str) -> FixedText:
            return FixedText(units(encoded, form.marks), view.texts, view.ids)

        parts = Parts(
            before=_fixed(before + texts.before),
            input=FreshMatcher(
                lambda: llguidance.LLMatcher(view.tokenizer, NO_FORCING + source, log_level=0)
            ),
            after=_fixed(texts.after + after),
            forbidden=texts.forbidden.encode(),
            view=view,
        )
        return CompiledGrammar(partial(CustomMatcher, parts), prefix=parts.before.units)

    def prepare(self, form: CallForm) -> None:
        """Make the view of the vocabulary that the dialect's custom tools need, and Lark's parser,
        which takes half a second."""
        check(f'{_START}"a"', self._has_text)
        self._view(input_texts(form.codec, form.marks).writing)

    def _view(self, writing: Writing) -> View:
        if writing not in self._views:
            self._views[writing] = View(self._tokenizer, writing)
        return self._views[writing]

    def _has_text(self, regex: str) -> bool:
        """Return whether a regular expression of Lark matches any text, the empty one included."""
        matcher = new_matcher(self._tokenizer, f"{_START}TEXT\nTEXT: {regex}")
        return matcher.is_accepting() or can_begin(self._tokenizer, matcher)


def _lark(grammar: Grammar) -> str:
    if grammar.syntax == "lark":
        return grammar.definition
    # A slash would end the regular expression in Lark, and so would a line break.
    parts = re.findall(r"\\.|[^\\]|\\", grammar.definition, re.DOTALL)
    written = {"/": "\\/", "\n": "\\n", "\\\n": "\\n", "\r": "\\r"}
    return f"{_START}/{''.join(written.get(part, part) for part in parts)}/"


def _definition_error(message: str, grammar: Grammar) -> str:
    """llguidance's message with its place in words. A regular expression is one line of Lark in
    llguidance, so its place is left out."""
    match = DEFINITION_ERROR.match(message)
    if match is None:
        return first_line(message)
    line, column, reason = match.groups()
    reason = " ".join(reason.split())
    return reason if grammar.syntax == "regex" else f"line {line}, column {column}: {reason}"


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
    known: set[str] = set()
    """The rules and terminals that have a finite text."""
    matches = cache(has_text)

    def is_finite(tree: Tree[Any]) -> bool:
        first: Any = tree.children[0] if tree.children else None
        match tree.data:
            case "expansions":
                return any(map(is_finite, tree.children))
            case "expansion":
                return all(map(is_finite, tree.children))
            case "maybe":
                return True
            case "expr" if str(tree.children[1]) in ("?", "*"):
                return True
            case "expr" if str(tree.children[1]) == "~" and str(tree.children[2]) == "0":
                return True
            case "literal" if str(first).startswith("/") and MAY_BE_EMPTY.search(str(first)):
                return matches(str(first))
            case "literal" | "range":
                return True
        return is_finite(first) if isinstance(first, Tree) else first.name in known

    try:
        bodies = _read(definition)
        while more := {name for name in bodies.keys() - known if is_finite(bodies[name])}:
            known |= more
    except RecursionError as error:
        raise GrammarRefused("nested too deeply", "") from error
    if START not in known:
        raise GrammarRefused("no finite text matches it", "")


def _read(definition: str) -> dict[str, Tree[Any]]:
    """Return the bodies of rules and terminals by name. Raise GrammarRefused, whose reason has the
    line and the column."""
    try:
        loaded, _ = load_grammar(_COUNTS.sub(_plain, definition), "it", [], False)  # type: ignore[no-untyped-call]
    except LarkError as error:
        match = _PLACE.search(str(error))
        place = f"line {match[1]}, column {match[2]}: " if match else ""
        raise GrammarRefused(f"{place}only Lark's own syntax is supported", "") from error
    rules = {str(name): body for name, _, body, _ in loaded.rule_defs}
    return rules | {str(name): body for name, (body, _) in loaded.term_defs}


def _plain(match: re.Match[str]) -> str:
    """Return a count as a quantifier of Lark, of the same length; other text as it is."""
    if match["least"] is None:
        return match[0]
    return ("+" if match["least"].strip("0") else "*").ljust(len(match[0]))
