"""No schema takes long in the gateway's own process, in which its calls are validated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.schemas.hostile import HOSTILE
from tests.support.schemas.steps import functions_of_schemas, steps_of
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.schema.limits import SchemaLimits, check_limits
from toolgate_proxy.validation.service import MAX_COMPILED, UNBOUNDED, steps
from toolgate_proxy.validation.validator import InvalidSchema, Validator

ARGUMENTS = '{"a": {"a": {"a": "x", "b": ["y"]}, "b": [["z"]]}}'


def _validator(schema: dict[str, Any]) -> None:
    """As ValidationService uses it: expensive schemas are left to other processes."""
    if steps(schema) <= MAX_COMPILED:
        try:
            Validator(schema).check(ARGUMENTS, unique=True)
        except InvalidSchema:
            return


FUNCTIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "proxy.validation.service:steps": steps,
    "proxy.validation.validator:Validator": _validator,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_validation_takes_few_steps(name: str) -> None:
    try:
        schema = canonical_parameters(HOSTILE[name])
        check_limits(schema, SchemaLimits(), param="it")
    except ToolgateError:
        pytest.skip("refused before")
    for work in FUNCTIONS.values():
        steps_of(lambda work=work: work(schema))  # type: ignore[misc]


def test_every_function_that_takes_a_schema_is_among_these() -> None:
    assert {*functions_of_schemas("toolgate_proxy.validation")} <= {*FUNCTIONS}


@pytest.mark.parametrize("pattern", ["a{" + "9" * 5_000 + "}", "a{99999999999}" * 50_000])
def test_counts_of_any_length_are_expensive(pattern: str) -> None:
    assert steps({"pattern": pattern}) == UNBOUNDED
