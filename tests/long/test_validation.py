"""The validation of arguments that the long tests judge calls by."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.schemas.judge import schema_violation


@pytest.mark.parametrize(
    ("value", "valid"), [(15, True), (16, False), (1.25e24, True), (float("inf"), True)]
)
def test_a_float_does_not_tell_whether_a_large_number_is_a_multiple(
    value: float, valid: bool
) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "number", "multipleOf": 5}}}
    assert (schema_violation(schema, {"x": value}) is None) == valid


@pytest.mark.parametrize(
    ("value", "valid"),
    [("2026-11-26T10:00:00Z", True), ("2026-11-26 noon", False), ("null", True), (7, False)],
)
def test_formats_are_assertions(value: Any, valid: bool) -> None:
    """If they were not, the text `null` would satisfy both parts, and be invalid."""
    time = {"type": "string", "format": "date-time"}
    schema = {"type": "object", "properties": {"x": {"oneOf": [time, {"const": "null"}]}}}
    assert (schema_violation(schema, {"x": value}) is None) == valid
