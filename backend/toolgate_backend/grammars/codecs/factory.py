"""The grammars of codecs, and of calls with arguments that are not JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolgate_core.dialects.dialect import Codec, FlatTags, GemmaValues, NestedTags, Pythonic
from toolgate_core.dialects.marks import Marks

from ...errors import GrammarRefused
from ...tokens.call_form import CallForm
from ...tokens.units import units
from ..text_kinds import JSON_IN_LLGUIDANCE, PYTHON, TextKind, free_texts
from .nested import NestedGrammar
from .raw_strings import uncounted_lengths
from .rules import GrammarRules, encoded_literal
from .tagged import TaggedGrammar
from .typed_values import GemmaGrammar, PythonicGrammar


def rules_of_call(
    form: CallForm, name: str, schema: dict[str, Any], typed_by: Mapping[str, Any]
) -> GrammarRules:
    """Return the rules of `make_rules`, and that of a whole call."""
    rules = make_rules(form.codec, schema, form.marks, typed_by)
    before, after = (encoded_literal(text, form.marks) for text in form.grammar_texts(name, schema))
    rules.lines.insert(0, f"start: {' '.join(filter(None, [before, 'arguments', after]))}")
    return rules


def make_rules(
    codec: Codec, schema: dict[str, Any], marks: Marks, typed_by: Mapping[str, Any]
) -> GrammarRules:
    """Return the rules of a tool's arguments. `schema` is the prepared schema of its parameters,
    with closed objects; `typed_by` is the canonical one. Raise GrammarRefused."""
    match codec:
        case Pythonic():
            rules = PythonicGrammar(codec, schema, marks, typed_by).rules
            rules.free = free_texts(schema, PYTHON, with_names=False, bare_names=True)
            return rules
        case FlatTags():
            rules = TaggedGrammar(codec, schema, marks, typed_by).rules
        case NestedTags():
            rules = NestedGrammar(codec, schema, marks, typed_by).rules
        case GemmaValues():
            rules = GemmaGrammar(codec, schema, marks, typed_by).rules
        case _:
            raise GrammarRefused(f"the codec {type(codec).__name__} has no grammar", "")
    if not rules.has_constrained:
        is_bare = isinstance(codec, GemmaValues)
        rules.free = free_texts(schema, _strings(codec, rules, marks), bare_names=is_bare)
    rules.residual += [each for each in uncounted_lengths(typed_by) if each not in rules.residual]
    return rules


def _strings(codec: Codec, rules: GrammarRules, marks: Marks) -> tuple[TextKind, ...]:
    """Return the kinds of strings of a codec with raw strings."""
    if rules.raw is None:
        return ()
    match codec:
        case FlatTags():
            return (rules.raw, JSON_IN_LLGUIDANCE)
        case GemmaValues(quote=quote):
            return (replace(rules.raw, quote=units(marks.encode(quote), marks)),)
        case _:
            return (rules.raw,)
