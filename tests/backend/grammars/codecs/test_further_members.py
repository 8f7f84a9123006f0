"""The members that an object in engine form does not declare."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from toolgate_backend.grammars.codecs.nodes import declared_members, further_members
from toolgate_core.schema.patterns import matches
from toolgate_core.schema.preparation.engine_form import has_readable_names

S, N = {"type": "string"}, {"type": "integer"}
NAMES = ["", "a", "ab", "b", "x", "xa", "x-1", "id", "12", "é", "A b"]
VALUES: list[Any] = ["a", 1, True, None]


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"additionalProperties": False},
        {"properties": {"a": S}, "additionalProperties": N},
        {"properties": {"b": S}, "required": ["xa", "b"], "additionalProperties": N},
        {"patternProperties": {"^x": N}, "additionalProperties": False},
        {"patternProperties": {"^x": False}, "additionalProperties": False},
    ],
)
def test_each_member_is_that_of_its_name_or_another_one(node: dict[str, Any]) -> None:
    declared, further = declared_members(node), further_members(node)
    validator = jsonschema_rs.validator_for({k: v for k, v in node.items() if k != "required"})
    for name in NAMES:
        found = [declared[name]] if name in declared else []
        if further is not None and name not in declared:
            is_named = further.pattern is None or matches(further.pattern, name)
            found += [further.schema] if is_named else []
        for value in VALUES:
            is_valid = bool(found) and jsonschema_rs.is_valid(found[0], value)
            assert is_valid == validator.is_valid({name: value}), (name, value)


@pytest.mark.parametrize(
    "more",
    [
        {"patternProperties": {"^x": N, "^y": S}},
        {"properties": {"y": S}},
        {"required": ["xa"]},
        {"additionalProperties": S},
        {"patternProperties": {r"^[^\s\S]$": N}},
    ],
)
def test_a_pattern_beside_other_members_or_without_a_name_is_not_read(more: Any) -> None:
    node = {"patternProperties": {"^x": N}, "additionalProperties": False}
    assert has_readable_names(node)
    assert not has_readable_names(node | more)
