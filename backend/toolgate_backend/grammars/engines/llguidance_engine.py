"""The llguidance engine. It enforces most of JSON Schema soundly, and names the keyword that it
refuses."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from copy import copy
from typing import Any

import llguidance
import llguidance.numpy
import numpy as np

from toolgate_core import grammar_key
from toolgate_core.custom_tools import Grammar
from toolgate_core.dialects.codecs import Json
from toolgate_core.schema.closed_objects import close_objects
from toolgate_core.schema.walk import find_keyword
from toolgate_core.wire import ResidualKeyword

from ...errors import GrammarRefused
from ...settings import settings
from ...tokens.call_form import CallForm
from ...tokens.units import units
from ..codecs.factory import make_rules
from ..codecs.rules import encoded_literal
from ..custom.definition import check
from ..custom.matcher import CustomGrammar, Parts
from ..custom.texts import FixedText, Writing, input_texts
from ..custom.views import WRITABLE, View, quoted_view, raw_view
from ..graph.free_strings import NOT_FREE, FreeTexts, free_texts
from ..graph.text_kinds import JSON_IN_LLGUIDANCE
from ..members.lark import TooLarge, member_rules
from .engine import CompiledGrammar
from .llguidance_matcher import Compiled, CompiledText, FreshMatcher, Mark

WRONG_VALUE = re.compile(r"(?:Invalid|Unknown) (?P<keyword>type|format): (?P<value>.*)")
_START = "start: "
NO_FORCING = '%llguidance {"no_forcing": true}\n'
"""llguidance allows only the tokenizer's own tokens of forced text, and a view has no tokenizer."""
DEFINITION_ERROR = re.compile(r"(?:at )?(\d+)\((\d+)\): (.*?)(?:\n +\d+ \| .*)?$", re.DOTALL)
LEXER_FUEL = 1_000_000
"""Limit of the lexer's work for one mask, five times llguidance's own. Raw text that is counted and
has parts of its end mark in it needs more than that."""
UNIMPLEMENTED = re.compile(r"Unimplemented keys: \[(?P<keys>[^\]]*)\]")


def tokenizer_text(tokenizer: Any) -> str:
    """Return a fast transformers tokenizer as JSON, from which `make_tokenizer` creates
    llguidance's tokenizer in any process. llguidance/hf.py does both at once.

    All added tokens become special. llguidance knows the marks among them by their ids only, and
    otherwise decides by the form of the text: `｜DSML｜` would be text, `<tool_call>` would not.
    """
    backend = copy(tokenizer.backend_tokenizer)
    backend.no_padding()
    backend.no_truncation()
    whole = json.loads(backend.to_str())
    for token in whole["added_tokens"]:
        token["special"] = True
    return json.dumps(whole)


def make_tokenizer(text: str, *, size: int, end: int) -> llguidance.LLTokenizer:
    """`size` is the width of the logits, `end` the tokenizer's own EOS. Takes about a second."""
    return llguidance.LLTokenizer(text, n_vocab=size, eos_token=end)


class LLGuidanceEngine:
    name = "llguidance"

    def __init__(self, tokenizer: llguidance.LLTokenizer) -> None:
        self._tokenizer = tokenizer
        self._any_order = settings().member_order == "any"
        self._views: dict[Writing, View] = {}

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text without special tokens."""
        return list(self._tokenizer.tokenize_str(text))

    def compile(self, form: CallForm, name: str, parameters: dict[str, Any]) -> CompiledGrammar:
        codec = form.codec_of(name)
        before, after = form.grammar_texts(name, parameters)
        schema = close_objects(parameters)
        assert isinstance(codec, Json)
        free = free_texts(schema, (JSON_IN_LLGUIDANCE,))
        options = {
            "whitespace_flexible": False,
            "item_separator": codec.item_separator,
            "key_separator": codec.key_separator,
        }
        start = f"start: {_literal(before)} arguments {_literal(after)}\n"
        if self._any_order and name != grammar_key.CONTENT:
            with suppress(TooLarge, GrammarRefused):  # then in the schema's order
                rules = member_rules(schema, options)
                if rules is not None:
                    return self._compiled(start + rules, parameters, free)
        grammar = f"{start}arguments: %json {json.dumps(schema | {'x-guidance': options})}"
        return self._compiled(grammar, parameters, free)

    def compile_call(
        self, form: CallForm, name: str, parameters: dict[str, Any], typed_by: dict[str, Any]
    ) -> tuple[CompiledGrammar, tuple[ResidualKeyword, ...]]:
        """As `compile` for arguments that are JSON, and as `compile_arguments` for others."""
        if isinstance(form.codec_of(name), Json):
            return self.compile(form, name, parameters), ()
        return self.compile_arguments(form, name, parameters, typed_by)

    def compile_arguments(
        self, form: CallForm, name: str, parameters: dict[str, Any], typed_by: dict[str, Any]
    ) -> tuple[CompiledGrammar, tuple[ResidualKeyword, ...]]:
        """Return a grammar for arguments that are not JSON, and the keywords that it does not
        enforce. `typed_by` is the canonical schema, by which the gateway reads the values. Raises
        GrammarRefused."""
        before, after = form.grammar_texts(name, parameters)
        rules = make_rules(form.codec, close_objects(parameters), form.marks, typed_by)
        start = " ".join(
            filter(
                None,
                [
                    encoded_literal(before, form.marks),
                    "arguments",
                    encoded_literal(after, form.marks),
                ],
            )
        )
        marks = tuple(
            Mark.of(token, self._tokenizer.decode_bytes([token])) for token in form.grammar_marks
        )
        grammar = f"start: {start}\n{rules.text}\n"
        compiled = Compiled(
            lambda: self._matcher(grammar, parameters), marks, rules.tags, rules.free
        )
        return compiled, tuple(rules.residual)

    def compile_custom(self, form: CallForm, name: str, grammar: Grammar) -> CompiledGrammar:
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

        return CustomGrammar(
            Parts(
                before=_fixed(before + texts.before),
                input=FreshMatcher(
                    lambda: llguidance.LLMatcher(view.tokenizer, NO_FORCING + source, log_level=0)
                ),
                after=_fixed(texts.after + after),
                forbidden=texts.forbidden.encode(),
                view=view,
            )
        )

    def prepare_custom(self, form: CallForm) -> None:
        """Make the view of the vocabulary that the dialect's custom tools need."""
        self._view(input_texts(form.codec, form.marks).writing)

    def _view(self, writing: Writing) -> View:
        if writing not in self._views:
            self._views[writing] = (
                raw_view(self._tokenizer)
                if writing == "raw"
                else quoted_view(self._tokenizer, writing)
            )
        return self._views[writing]

    def _compiled(
        self, grammar: str, parameters: dict[str, Any], free: FreeTexts = NOT_FREE
    ) -> CompiledGrammar:
        return Compiled(lambda: self._matcher(grammar, parameters), free=free)

    def _matcher(self, grammar: str, parameters: dict[str, Any]) -> llguidance.LLMatcher:
        limits = llguidance.LLParserLimits(step_lexer_fuel=LEXER_FUEL)
        matcher = llguidance.LLMatcher(self._tokenizer, grammar, log_level=0, limits=limits)
        if matcher.is_error():
            reason = _first_line(matcher.get_error())
            raise GrammarRefused(reason, _pointer(reason, parameters))
        return matcher

    def compile_text(self, form: dict[str, Any]) -> CompiledGrammar:
        """Return a grammar for `TEXT`: one of several texts, or a regular expression; never the
        empty text. Raise GrammarRefused."""
        if "choice" in form:
            texts = " | ".join(json.dumps(text, ensure_ascii=False) for text in form["choice"])
            grammar = llguidance.LLMatcher.grammar_from_lark(f"start: {texts}")
        else:
            grammar = llguidance.LLMatcher.grammar_from_regex(form["regex"])
        matcher = self._matcher(grammar, {})
        if not self._can_begin(matcher):
            raise GrammarRefused("it matches no text, or only the empty text", "")
        return CompiledText(lambda: self._matcher(grammar, {}))

    def _has_text(self, regex: str) -> bool:
        """Return whether a regular expression of Lark matches any text, the empty one included."""
        matcher = self._matcher(f"{_START}TEXT\nTEXT: {regex}", {})
        return matcher.is_accepting() or self._can_begin(matcher)

    def _can_begin(self, matcher: llguidance.LLMatcher) -> bool:
        """Return whether the text can begin with a token other than the end."""
        begun = matcher.deep_copy()
        row = llguidance.numpy.allocate_token_bitmask(1, self._tokenizer.vocab_size)
        llguidance.numpy.fill_next_token_bitmask(begun, row)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        bits[self._tokenizer.eos_token] = 0
        return not begun.is_error() and bool(bits.any())


def _literal(text: str) -> str:
    return json.dumps(text) if text else ""


def _first_line(error: str) -> str:
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return lines[0][:300] if lines else "refused without a reason"


def _pointer(reason: str, parameters: dict[str, Any]) -> str:
    """Return the JSON Pointer of the keyword in llguidance's message; "" if it names none."""
    wanted: list[tuple[str, str | None]] = []
    if named := UNIMPLEMENTED.search(reason):
        wanted = [(keyword, None) for keyword in re.findall(r'"([^"]+)"', named["keys"])]
    elif named := WRONG_VALUE.search(reason):
        wanted = [(named["keyword"], named["value"])]
    elif "$ref" in reason or "registry" in reason:
        wanted = [("$ref", None)]
    elif "regex" in reason or "look-around" in reason:
        wanted = [("pattern", None), ("patternProperties", None)]
    found = (find_keyword(parameters, keyword, value) for keyword, value in wanted)
    return next((pointer for pointer in found if pointer is not None), "")


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
        return _first_line(message)
    line, column, reason = found.groups()
    reason = " ".join(reason.split())
    return reason if grammar.syntax == "regex" else f"line {line}, column {column}: {reason}"
