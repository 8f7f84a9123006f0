"""Compilation of the grammars of custom tools."""

from __future__ import annotations

import re
from functools import partial

import llguidance

from toolgate_core.custom_tools import Grammar

from ...errors import GrammarRefused
from ...tokens.call_form import CallForm
from ...tokens.units import units
from ..engines.engine import CompiledGrammar
from ..engines.llguidance_matcher import FreshMatcher, can_begin, first_line, new_matcher
from .definition import check
from .matcher import CustomMatcher, Parts
from .texts import FixedText, Writing, input_texts
from .views import WRITABLE, View, quoted_view, raw_view

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
                    reason = "it matches only texts with control characters that calls can't have"
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
            self._views[writing] = (
                raw_view(self._tokenizer)
                if writing == "raw"
                else quoted_view(self._tokenizer, writing)
            )
        return self._views[writing]

    def _has_text(self, regex: str) -> bool:
        """Return whether a regular expression of Lark matches any text, the empty one included."""
        matcher = new_matcher(self._tokenizer, f"{_START}TEXT\nTEXT: {regex}", {})
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
    found = DEFINITION_ERROR.match(message)
    if found is None:
        return first_line(message)
    line, column, reason = found.groups()
    reason = " ".join(reason.split())
    return reason if grammar.syntax == "regex" else f"line {line}, column {column}: {reason}"
