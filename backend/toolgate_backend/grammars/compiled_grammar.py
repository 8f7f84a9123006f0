"""A compiled grammar with the measurements that token budgets and the bounds on values need."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from typing import Any

from toolgate_core import grammar_key
from toolgate_core.custom_tools import grammar_of
from toolgate_core.schema.canonical import TEXT
from toolgate_core.schema.walk import at_pointer, pointer_of_ref, subschemas, values
from toolgate_core.wire import NO_HINTS, Hints

from .codecs.rules import TagText
from .completions.hints import hints_of
from .completions.json_texts import Scan
from .completions.search import Completion
from .engines.engine import CompiledGrammar, Matcher

UNKNOWN_VALUE_BYTES = 24
"""Assumed bytes of a value that only has a pattern or a format."""
STRUCTURE_BYTES = 16
"""Bytes of structure around a value and its key that one token can require: braces, quotes,
separators."""


@dataclass(frozen=True, eq=False)
class MeasuredGrammar:
    compiled: CompiledGrammar
    least_tokens: int | None
    """Length of the shortest completion that was found; None if none was found."""
    growth: int
    """Upper estimate of the number of tokens by which one token can lengthen the completion."""
    name: str = ""
    """The tool's name; `grammar_key.CONTENT` for the content."""
    extra_tokens: int = 0
    """By how many tokens a usual call is longer than the shortest one (`extra_tokens`)."""
    hints: Hints = NO_HINTS
    """What the search for completions knows of the schema."""
    limits: ValueLimits | None = None
    """The limits of numbers; None for grammars of text, in which digits are no numbers."""

    @property
    def fixed_prefix(self) -> bytes:
        return self.compiled.fixed_prefix

    def matcher(self) -> Matcher:
        return self.compiled.matcher()


def measure(
    compiled: CompiledGrammar, name: str, parameters: dict[str, Any], completion: Completion
) -> MeasuredGrammar:
    """Takes as long as a compile, or longer for some schemas. Called in the quarantine process."""
    scan = Scan() if name == grammar_key.CONTENT else completion.call_scan
    tried = hints_of(parameters, completion.cost)
    found = [
        (len(path), each)
        for each in tried
        if (path := completion.path(compiled.matcher(), scan, each)) is not None
    ]
    least_tokens, hints = min(found, key=lambda each: each[0], default=(None, tried[0]))
    extra = extra_tokens(parameters)
    limits = limits_of(compiled, parameters)
    return MeasuredGrammar(compiled, least_tokens, growth(parameters), name, extra, hints, limits)


def growth(parameters: dict[str, Any]) -> int:
    """Upper estimate of the growth of the completion by one token, which can begin a member with a
    required value. The estimate counts bytes, because a token has at least one byte."""
    minimum_bytes = _MinimumBytes(parameters)
    values = [minimum_bytes(sub) for _, sub in subschemas(parameters)]
    keys = [
        len(name.encode(errors="replace"))
        for _, sub in subschemas(parameters)
        if isinstance(sub, dict) and isinstance(sub.get("properties"), dict)
        for name in sub["properties"]
    ]
    return max(values, default=0) + max(keys, default=0) + STRUCTURE_BYTES


class _MinimumBytes:
    """The approximate length in bytes of the shortest value of a schema; of alternatives, the
    longest. Each subschema is visited once, however often it is referenced."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[int, int] = {}

    def __call__(self, schema: Any) -> int:
        if not isinstance(schema, dict):
            return UNKNOWN_VALUE_BYTES
        known = self._known.get(id(schema))
        if known is None:
            self._known[id(schema)] = UNKNOWN_VALUE_BYTES  # for references back to this schema
            known = self._known[id(schema)] = self._minimum(schema)
        return known

    def _minimum(self, schema: dict[str, Any]) -> int:
        branches = [
            branch for word in ("anyOf", "oneOf", "allOf") for branch in _list(schema.get(word))
        ]
        if (target := pointer_of_ref(schema.get("$ref"))) is not None:
            branches.append(at_pointer(self._root, target))
        return max([self._minimum_of_keywords(schema), *map(self, branches)])

    def _minimum_of_keywords(self, schema: dict[str, Any]) -> int:
        if "enum" in schema or "const" in schema:
            values = [*_list(schema.get("enum")), *([schema["const"]] if "const" in schema else [])]
            return max((len(json.dumps(value)) for value in values), default=UNKNOWN_VALUE_BYTES)
        properties = schema.get("properties")
        declared = properties if isinstance(properties, dict) else {}
        total = UNKNOWN_VALUE_BYTES if schema.keys() & {"pattern", "format"} else 4
        total += _count(schema.get("minLength"))
        for name in _list(schema.get("required")):
            total += len(str(name).encode(errors="replace")) + self(declared.get(name)) + 6
        items = [self(item) for item in _list(schema.get("prefixItems"))]
        if "minItems" in schema:
            items.append(self(schema.get("items", {})))
        total += sum(items) + (max(items, default=0) + 2) * _count(schema.get("minItems"))
        return total + (UNKNOWN_VALUE_BYTES + 6) * _count(schema.get("minProperties"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0


STRING_TOKENS = 64
"""Tokens of a usual string without an upper bound. A usual call is longer than the shortest one by
at least as many, for its numbers and optional members: 99.7 % of BFCL's 1,039 true calls fit."""
CHARACTERS_PER_TOKEN = 3
OPEN_OBJECT_TOKENS = 64
"""Tokens of a usual object without declared properties."""
MAX_TOKENS = 512


def extra_tokens(parameters: dict[str, Any]) -> int:
    """Return the number of tokens by which a usual call is longer than the shortest one, estimated
    from the schema, at most `MAX_TOKENS`. The shortest call has empty strings. After long
    reasoning, a budget with room for no more would make the model write them."""
    if parameters.get("additionalProperties") is False and not parameters.get("properties"):
        return 0  # no arguments
    return min(MAX_TOKENS, max(STRING_TOKENS, _Estimate(parameters).of(parameters)))


class _Estimate:
    """Each subschema is estimated once, however often it is referenced."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[int, int] = {}

    def of(self, schema: Any) -> int:
        if not isinstance(schema, dict):
            return 0
        if id(schema) not in self._known:
            self._known[id(schema)] = 0  # for references back to this schema
            self._known[id(schema)] = min(MAX_TOKENS, self._of(schema))
        return self._known[id(schema)]

    def _of(self, schema: dict[str, Any]) -> int:
        if "enum" in schema or "const" in schema:
            return 0
        if (target := pointer_of_ref(schema.get("$ref"))) is not None:
            return self.of(at_pointer(self._root, target))
        # Alternatives that are no longer than others, such as null, are not what a call needs.
        branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        longest = max(map(self.of, branches), default=0)
        together = sum(map(self.of, schema.get("allOf", ())))
        return longest + together + self._of_type(schema)

    def _of_type(self, schema: dict[str, Any]) -> int:
        kinds = schema.get("type", ())
        kinds = {kinds} if isinstance(kinds, str) else set(kinds)
        tokens = 0
        if "string" in kinds and not schema.keys() & {"format", "pattern"}:
            bound = schema.get("maxLength")
            tokens = STRING_TOKENS
            if isinstance(bound, int | float):
                tokens = min(tokens, int(bound) // CHARACTERS_PER_TOKEN)
        if "array" in kinds:
            items = schema.get("items")
            tokens = max(tokens, self.of(items) * max(1, _count(schema.get("minItems"))))
        if "object" in kinds or "properties" in schema:
            tokens = max(tokens, self._of_object(schema))
        return tokens

    def _of_object(self, schema: dict[str, Any]) -> int:
        properties = schema.get("properties")
        if not properties:
            return 0 if schema.get("additionalProperties") is False else OPEN_OBJECT_TOKENS
        return sum(self.of(properties.get(name)) for name in schema.get("required", ()))


DIGITS = 24
"""Digits before the decimal point, and after it. JavaScript writes numbers below 1e21, and from
1e-6 on, without an exponent: 21 digits, or 22 with the zeros before them."""
EXPONENT_DIGITS = 3
DIGITS_PER_BIT = 0.30103


@dataclass(frozen=True, eq=False)
class ValueLimits:
    """The number of digits that masks allow in the numbers of a grammar.

    It is enough for every double in its shortest notation and for every 64-bit integer. A schema
    that names longer numbers, in its bounds, in `multipleOf` or in listed values, gets as many
    digits as these have."""

    integer: int = DIGITS
    fraction: int = DIGITS
    tags: Mapping[bytes, TagText] = field(default_factory=dict)
    """What the text in tags is, by name (codecs/rules.py)."""


def limits_of(compiled: CompiledGrammar, parameters: dict[str, Any]) -> ValueLimits | None:
    """The limits of a grammar of JSON values; None for one of text. `parameters` is the schema
    before it was rewritten for an engine, which removes the bounds that the engine can't enforce.
    """
    if TEXT in parameters or grammar_of(parameters) is not None:
        return None
    integer, fraction = _digits(value for _, value in values(parameters))
    return ValueLimits(max(DIGITS, integer), max(DIGITS, fraction), compiled.tags)


def _digits(found: Iterable[Any]) -> tuple[int, int]:
    """The most digits before and after the decimal point, and one more for numbers beside these."""
    integer = fraction = 0
    for value in found:
        if isinstance(value, int):
            # Python refuses to write very long integers.
            integer = max(integer, int(value.bit_length() * DIGITS_PER_BIT) + 2)
        elif isinstance(value, float) and isfinite(value):
            number = Decimal(repr(value))
            exponent = int(number.as_tuple().exponent)
            integer = max(integer, number.adjusted() + 2)
            fraction = max(fraction, 1 - exponent)
    return integer, fraction
