r"""Masks for patterns with `\s` or `\S` allow only characters that every validator accepts."""

from __future__ import annotations

import re

import jsonschema_rs
import pytest

from tests.support.schemas.judge import Judge

DISPUTED = "\x1c\x1d\x1e\x1f\x85\ufeff"
CERTAIN = "\t\n\v\f\r \xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000aZ0_-é北\u200b"


@pytest.mark.parametrize("pattern", [r"^\S$", r"^\s$", r"^[^\s,]$", r"^[\s-]$", r"^a?\S$"])
def test_the_value_of_a_pattern(judge: Judge, pattern: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": pattern}},
        "required": ["a"],
    }
    values = DISPUTED + CERTAIN
    judged = judge.judge(schema, [(None, {"a": value}) for value in values])
    assert judged.outcome == "masked"
    for value, instance in zip(values, judged.instances, strict=True):
        valid = re.search(pattern, value) is not None
        valid &= jsonschema_rs.is_valid(schema, {"a": value})
        assert instance.taken == (valid and value not in DISPUTED), hex(ord(value))


def test_a_name_has_no_disputed_characters(judge: Judge) -> None:
    schema = {
        "type": "object",
        "patternProperties": {r"^\S$": {"type": "integer"}},
        "additionalProperties": False,
    }
    instances = [{name: value} for name in "a\x1e\ufeff " for value in (1, "b")]
    judged = judge.judge(schema, [(None, instance) for instance in instances])
    assert judged.outcome == "masked"
    for instance, found in zip(instances, judged.instances, strict=True):
        valid = jsonschema_rs.is_valid(schema, instance)
        assert found.taken == (valid and not {*DISPUTED} & {*"".join(instance)}), instance
