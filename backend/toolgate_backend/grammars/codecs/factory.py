"""The grammar of a codec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core.dialects.codecs import Codec, GemmaValues, NestedTags, Pythonic, Tagged
from toolgate_core.dialects.marks import Marks

from ...errors import GrammarRefused
from .gemma import gemma_rules
from .nested import nested_rules
from .pythonic import pythonic_rules
from .rules import Rules
from .strings.raw_strings import uncounted_lengths
from .tagged import tagged_rules


def make_rules(
    codec: Codec, schema: dict[str, Any], marks: Marks, typed_by: Mapping[str, Any]
) -> Rules:
    """The rules of a tool's arguments. `schema` is the prepared schema of its parameters, with
    closed objects; `typed_by` is the canonical one. Raises GrammarRefused."""
    if isinstance(codec, Pythonic):
        return pythonic_rules(codec, schema, marks, typed_by)
    if isinstance(codec, Tagged):
        rules = tagged_rules(codec, schema, marks, typed_by)
    elif isinstance(codec, NestedTags):
        rules = nested_rules(codec, schema, marks, typed_by)
    elif isinstance(codec, GemmaValues):
        rules = gemma_rules(codec, schema, marks, typed_by)
    else:
        raise GrammarRefused(f"the codec {type(codec).__name__} has no grammar", "")
    rules.residual += [each for each in uncounted_lengths(typed_by) if each not in rules.residual]
    return rules
