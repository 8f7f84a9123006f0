"""The members that an object in engine form does not declare."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from toolgate_core.pattern_match import matches
from toolgate_core.schema.preparation.further_members import declared_members, further_members

S, N, B = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
NAMES = ["", "a", "ab", "b", "x", "xa", "x-1", "id", "12", "é", "A b"]
VALUES: list[Any] = ["a", 1, True, None]


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"additionalProperties": False},
        {"properties": {"a": S}, "additionalProperties": N},
        {"properties": {"a": S}, "patternProperties": {"^x": N}, "additionalProperties": False},
        {"properties": {"a": S}, "patternProperties": {"^x": N, "^[0-9]+$": B}},
        {"patternProperties": {"^x": N}, "required": ["xa", "b"], "additionalProperties": S},
        {"properties": {"xa": False, "id": S}, "patternProperties": {"^x": N}},
        {"properties": {"id": S}, "patternProperties": {"^[a-z]+$": True, "^[A-Z]": False}},
        {"properties": {"a": S}, "patternProperties": {"^a$": True}, "additionalProperties": False},
        {"patternProperties": {r"^[\s\S]*$": N}, "additionalProperties": S},
    ],
)
def test_each_member_is_that_of_its_name_or_of_one_pattern(node: dict[str, Any]) -> None:
    declared, further = declared_members(node), further_members(node)
    assert further is not None
    validator = jsonschema_rs.validator_for({k: v for k, v in node.items() if k != "required"})
    for name in NAMES:
        found = [declared[name]] if name in declared else []
        found += [
            each.schema
            for each in further
            if (name not in declared if each.pattern is None else matches(each.pattern, name))
        ]
        assert len(found) <= 1, name
        for value in VALUES:
            is_valid = bool(found) and jsonschema_rs.is_valid(found[0], value)
            assert is_valid == validator.is_valid({name: value}), (name, value)


@pytest.mark.parametrize(
    "node",
    [
        {"patternProperties": {"^x": N, "a$": S}},
        {"properties": {"xa": S}, "patternProperties": {"^x": N}},
        {"patternProperties": {"^(?:ab|x)$": N, "^ab": S}, "required": ["ab"]},
        {"patternProperties": {"^[a-z]{300}$": N}},
        {"patternProperties": {f"^x{at}_": N for at in range(100)}},
    ],
)
def test_a_name_with_several_schemas_or_no_simple_pattern_has_no_answer(
    node: dict[str, Any],
) -> None:
    assert further_members(node) is None


def test_members_without_names_are_left_out() -> None:
    node = {"properties": {"a": S}, "patternProperties": {"^a$": True, "^b": N}}
    further = further_members(node | {"additionalProperties": False})
    assert further is not None
    assert [(each.schema, each.pattern) for each in further] == [(N, "^b")]
