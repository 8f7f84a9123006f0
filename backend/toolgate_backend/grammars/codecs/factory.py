"""The grammar of a codec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolgate_core.dialects.codecs import Codec, GemmaValues, NestedTags, Pythonic, Tagged
from toolgate_core.dialects.marks import Marks

from ...errors import GrammarRefused
from ...tokens.units import units
from ..graph.free_strings import free_texts
from ..graph.text_kinds import JSON_IN_LLGUIDANCE, PYTHON, TextKind
from .gemma import gemma_rules
from .nested import nested_rules
from .pythonic import pythonic_rules
from .raw_strings import uncounted_lengths
from .rules import Rules
from .tagged import tagged_rules


def make_rules(
    codec: Codec, schema: dict[str, Any], marks: Marks, typed_by: Mapping[str, Any]
) -> Rules:
    """The rules of a tool's arguments. `schema` is the prepared schema of its parameters, with
    closed objects; `typed_by` is the canonical one. Raises GrammarRefused."""
    if isinstance(codec, Pythonic):
        rules = pythonic_rules(codec, schema, marks, typed_by)
        rules.free = free_texts(schema, PYTHON, with_names=False, bare_names=True)
        return rules
    if isinstance(codec, Tagged):
        rules = tagged_rules(codec, schema, marks, typed_by)
    elif isinstance(codec, NestedTags):
        rules = nested_rules(codec, schema, marks, typed_by)
    elif isinstance(codec, GemmaValues):
        rules = gemma_rules(codec, schema, marks, typed_by)
    else:
        raise GrammarRefused(f"the codec {type(codec).__name__} has no grammar", "")
    if not rules.has_constrained:
        is_bare = isinstance(codec, GemmaValues)
        rules.free = free_texts(schema, _strings(codec, rules, marks), bare_names=is_bare)
    rules.residual += [each for each in uncounted_lengths(typed_by) if each not in rules.residual]
    return rules


def _strings(codec: Codec, rules: Rules, marks: Marks) -> tuple[TextKind, ...]:
    """The kinds of strings of a codec with raw strings."""
    if rules.raw is None:
        return ()
    match codec:
        case Tagged():
            return (rules.raw, JSON_IN_LLGUIDANCE)
        case GemmaValues(quote=quote):
            return (replace(rules.raw, quote=units(marks.encode(quote), marks)),)
        case _:
            return (rules.raw,)
