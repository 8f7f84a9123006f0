"""Subschemas that are combined for one value."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.schemas.hostile import DOUBLING, argument, levels
from toolgate_core.errors import SchemaTooComplex
from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.schema.limits import MAX_PATHS, SchemaLimits, check_limits

COMBINING = ("allOf", "anyOf", "oneOf", "not", "if")


def refusal(schema: dict[str, Any]) -> SchemaTooComplex | None:
    try:
        check_limits(canonical_parameters(schema), SchemaLimits(), param="it")
    except SchemaTooComplex as error:
        return error
    return None


@pytest.mark.parametrize("keyword", COMBINING)
def test_combinations_that_multiply_are_refused_with_their_pointer(keyword: str) -> None:
    error = refusal(argument(levels(DOUBLING[keyword])))
    assert error is not None
    assert error.pointer.startswith("/")
    assert f"{MAX_PATHS:,}" in error.message
    assert refusal(argument(levels(DOUBLING[keyword], count=6))) is None


@pytest.mark.parametrize("keyword", [each for each in DOUBLING if each not in COMBINING])
def test_members_that_multiply_are_not_combined_for_one_value(keyword: str) -> None:
    assert refusal(argument(levels(DOUBLING[keyword], count=30))) is None or "allOf" in str(
        DOUBLING[keyword]({})
    )


def test_recursive_and_long_chains_of_combinations_pass() -> None:
    loop = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/loop"}, {"$ref": "#/$defs/loop"}]}
    chain = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}]} for at in range(3_000)}
    schema = {"$defs": {"loop": loop, "d3000": {}} | chain}
    properties = {"a": {"$ref": "#/$defs/loop"}, "b": {"$ref": "#/$defs/d0"}}
    assert refusal(schema | {"properties": properties}) is None


def test_a_reference_to_nothing_is_left_to_the_engines() -> None:
    check_limits({"allOf": [{"$ref": "#/nowhere"}]}, SchemaLimits(), param="it")
