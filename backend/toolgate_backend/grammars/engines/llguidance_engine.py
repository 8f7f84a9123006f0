"""The llguidance engine. It enforces most of JSON Schema soundly, and refuses the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from typing import Any

import llguidance
import llguidance.numpy

from toolgate_core import grammar_key
from toolgate_core.schema.closed_objects import close_objects
from toolgate_core.wire import ResidualKeyword

from ...errors import GrammarRefused
from ...settings import settings
from ...tokens.call_form import CallForm
from ..codecs.factory import rules_of_call
from ..codecs.rules import exact_numbers
from ..text_kinds import JSON_IN_LLGUIDANCE, free_texts
from .custom_grammar import CustomGrammars
from .engine import CompiledGrammar
from .llguidance_matcher import Mark, can_begin, matchers_of, new_matcher
from .llguidance_members import TooLarge, member_rules


def tokenizer_text(tokenizer: Any) -> str:
    """Return a fast transformers tokenizer as JSON, from which `make_tokenizer` creates
    llguidance's tokenizer in any process. llguidance/hf.py does both at once.

    All added tokens become special. llguidance knows the marks among them by their ids only, and
    otherwise decides by the form of the text: `｜DSML｜` would be text, `<tool_call>` would not."""
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
        self.custom = CustomGrammars(tokenizer)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text without special tokens."""
        return list(self._tokenizer.tokenize_str(text))

    def compile(self, form: CallForm, name: str, parameters: dict[str, Any]) -> CompiledGrammar:
        codec = form.json_of(name)
        assert codec is not None
        before, after = form.grammar_texts(name, parameters)
        schema = close_objects(parameters)
        free = free_texts(schema, (JSON_IN_LLGUIDANCE,))
        options = {
            "whitespace_flexible": False,
            "item_separator": codec.item_separator,
            "key_separator": codec.key_separator,
        }
        first: GrammarRefused | None = None
        start = f"start: {_literal(before)} arguments {_literal(after)}\n"

        def compiled(rules: str) -> CompiledGrammar:
            grammar = start + rules
            matchers = matchers_of(lambda: new_matcher(self._tokenizer, grammar))
            return CompiledGrammar(matchers, free=free)

        json_rule = f"%json {json.dumps(schema | {'x-guidance': options})}"
        # Each may compile what the other cannot.
        ways: list[Callable[[], str | None]] = [
            lambda: f"arguments: {exact_numbers(schema, options) or json_rule}",
            lambda: member_rules(schema, options),
        ]
        if self._any_order and name != grammar_key.CONTENT:
            ways.reverse()
        for way in ways:
            try:
                if (rules := way()) is not None:
                    return compiled(rules)
            except TooLarge:
                continue
            except GrammarRefused as refused:
                first = first or refused
        assert first is not None
        raise first

    def compile_arguments(
        self, form: CallForm, name: str, parameters: dict[str, Any], typed_by: dict[str, Any]
    ) -> tuple[CompiledGrammar, tuple[ResidualKeyword, ...]]:
        """Return a grammar for arguments that are not JSON, and the keywords that it does not
        enforce. `typed_by` is the canonical schema, by which the gateway reads the values. Raise
        GrammarRefused."""
        rules = rules_of_call(form, name, close_objects(parameters), typed_by)
        marks = tuple(
            Mark.of(token, self._tokenizer.decode_bytes([token])) for token in form.grammar_marks
        )
        grammar = rules.text
        matchers = matchers_of(lambda: new_matcher(self._tokenizer, grammar), marks)
        compiled = CompiledGrammar(matchers, free=rules.free, tags=rules.tags)
        return compiled, tuple(rules.residual)

    def compile_text(self, form: dict[str, Any]) -> CompiledGrammar:
        """Return a grammar for `TEXT`: one of several texts, or a regular expression; never the
        empty text. Raise GrammarRefused."""
        if "choice" in form:
            texts = " | ".join(json.dumps(text, ensure_ascii=False) for text in form["choice"])
            grammar = llguidance.LLMatcher.grammar_from_lark(f"start: {texts}")
        else:
            grammar = llguidance.LLMatcher.grammar_from_regex(form["regex"])
        matcher = new_matcher(self._tokenizer, grammar)
        if not can_begin(self._tokenizer, matcher):
            raise GrammarRefused("it matches no text, or only the empty text", "")
        # Without a prefix: the text may be complete inside a common one.
        return CompiledGrammar(
            matchers_of(lambda: new_matcher(self._tokenizer, grammar)), prefix=b""
        )


def _literal(text: str) -> str:
    return json.dumps(text) if text else ""
