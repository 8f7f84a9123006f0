"""Patterns that only the validator reads, and those that it does not read."""

from __future__ import annotations

import jsonschema_rs
import pytest

from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.prepare import prepare

LOOK_BEHIND = r"^x(?<=a|(?:\w|\b)\s)d"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (LOOK_BEHIND, "its look-behind has no fixed length"),
        (r"(a+)(?<=\1)b", "its look-behind has no fixed length"),
        ("(", "a group without an end"),
        (f"(?{'b' * 500}", "an unknown kind of group"),
    ],
)
def test_a_pattern_that_no_engine_reads_is_refused_with_the_reason(
    pattern: str, reason: str
) -> None:
    for schema, pointer in (
        ({"type": "object", "properties": {"a": {"pattern": pattern}}}, "/properties/a/pattern"),
        ({"type": "object", "patternProperties": {pattern: {}}}, "/patternProperties"),
    ):
        with pytest.raises(SchemaNotEnforceable, match=reason) as refused:
            prepare(canonical_schema(schema, param=""))
        assert refused.value.pointer.startswith(pointer)
        assert len(refused.value.message) < 300


@pytest.mark.parametrize(
    ("pattern", "valid", "invalid"),
    [
        (r"(?<=a+)b$", "aab", "b"),
        (r"^\w+(?<!draft|old)$", "new", "my-old"),
        (r"(?<=^|,)id", "x,id", "void"),
    ],
)
def test_look_behind_of_variable_length_is_residual(pattern: str, valid: str, invalid: str) -> None:
    member = {"type": "string", "pattern": pattern}
    schema = canonical_schema({"properties": {"a": member}}, param="")
    prepared = prepare(schema)
    assert [each.pointer for each in prepared.residual] == ["/properties/a/pattern"]
    check = jsonschema_rs.validator_for(schema)
    assert check.is_valid({"a": valid})
    assert not check.is_valid({"a": invalid})
