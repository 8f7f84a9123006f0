"""The number of digits that masks allow in the numbers of a grammar.

It is enough for every double in its shortest notation and for every 64-bit integer. A schema that
names longer numbers, in its bounds, in `multipleOf` or in listed values, gets as many digits as
these have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from typing import Any

from toolgate_core.custom_tools import grammar_of
from toolgate_core.schema.canonical import TEXT
from toolgate_core.schema.walk import values

from .codecs.rules import TagText
from .engines.engine import CompiledGrammar
from .engines.llguidance_matcher import Compiled

DIGITS = 24
"""Digits before the decimal point, and after it. JavaScript writes numbers below 1e21, and from
1e-6 on, without an exponent: 21 digits, or 22 with the zeros before them."""
EXPONENT_DIGITS = 3
DIGITS_PER_BIT = 0.30103


@dataclass(frozen=True, eq=False)
class ValueLimits:
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
    tags = compiled.tags if isinstance(compiled, Compiled) else {}
    return ValueLimits(max(DIGITS, integer), max(DIGITS, fraction), tags)


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
