"""A compiled grammar with the measurements that token budgets and the bounds on values need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any

from toolgate_core.custom_tools import grammar_of
from toolgate_core.schema.canonical import TEXT
from toolgate_core.schema.walk import at_pointer, pointer_of_ref, values

from .engines.engine import CompiledGrammar, Matcher


@dataclass(frozen=True, eq=False)
class MeasuredGrammar:
    compiled: CompiledGrammar
    least_tokens: int | None
    """The least number of tokens (`LeastTokens`); None if it is not known."""
    name: str = ""
    """The tool's name; `grammar_key.CONTENT` for the content."""
    extra_tokens: int = 0
    """By how many tokens a usual call is longer than the shortest one (`extra_tokens`)."""
    limits: ValueLimits | None = None
    """The limits of numbers; None for grammars of text, in which digits are no numbers."""

    @property
    def fixed_prefix(self) -> bytes:
        return self.compiled.fixed_prefix

    def matcher(self) -> Matcher:
        return self.compiled.matcher()


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
FINITE_DIGITS = 308
"""A number with so many digits before the decimal point is finite in double precision."""
DIGITS_PER_BIT = 0.30103


@dataclass(frozen=True, eq=False)
class ValueLimits:
    """The number of digits that masks allow in the numbers of a grammar.

    It is enough for every double in its shortest notation and for every 64-bit integer. A schema
    that names longer numbers, in its bounds, in `multipleOf` or in listed values, gets as many
    digits as these have."""

    integer: int = DIGITS
    fraction: int = DIGITS


def limits_of(parameters: dict[str, Any]) -> ValueLimits | None:
    """Return the limits of a grammar of JSON values; None for one of text. `parameters` is the
    schema before it was rewritten for an engine, which removes the bounds that the engine cannot
    enforce."""
    if TEXT in parameters or grammar_of(parameters) is not None:
        return None
    integer, fraction = _digits(value for _, value in values(parameters))
    return ValueLimits(max(DIGITS, integer), max(DIGITS, fraction))


def _digits(found: Iterable[Any]) -> tuple[int, int]:
    """Return the most digits before and after the decimal point, and one more for numbers beside
    these."""
    integer = fraction = 0
    for value in found:
        if isinstance(value, int):
            # Python refuses to write very long integers.
            integer = max(integer, int(value.bit_length() * DIGITS_PER_BIT) + 2)
        elif isinstance(value, float) and isfinite(value):
            number = Decimal(repr(value))
            exponent = int(number.as_tuple().exponent)
            integer = max(integer, min(number.adjusted() + 2, FINITE_DIGITS))
            fraction = max(fraction, 1 - exponent)
    return integer, fraction
