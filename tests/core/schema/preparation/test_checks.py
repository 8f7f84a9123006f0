"""Schemas that no finite value satisfies are refused with the JSON Pointer of the cause."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.preparation.checks import check_schema, unsatisfiable_part

LOOP = {"type": "object", "properties": {"next": {"$ref": "#/$defs/loop"}}, "required": ["next"]}
NODE = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["next"],
}
NO_ARRAY = {"type": "array", "minItems": 3, "maxItems": 1}


def requires(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},  # a string satisfies it
        {"type": ["object", "null"], "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"$defs": {"node": NODE}, "$ref": "#/$defs/node"},
        {"$defs": {"unused": LOOP, "loop": LOOP}},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 0},
        {"type": "object", "required": ["undeclared"]},
        {"properties": {name: {"$ref": "#"} for name in ("not", "if", "$defs")}},
        {"type": "number", "pattern": "^$a"},
    ],
)
def test_a_schema_with_a_finite_value_is_accepted(schema: dict[str, Any]) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#"}, ""),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, ""),
        ({"type": "array", "prefixItems": [{}, {"$ref": "#"}], "minItems": 2}, ""),
        ({"anyOf": [{"$ref": "#"}, {"allOf": [{"type": "string"}, {"$ref": "#"}]}]}, ""),
        (requires({"$ref": "#/properties/a"}), "/properties/a"),
        (requires({"$ref": "#/$defs/loop"}, **{"$defs": {"loop": LOOP}}), "/$defs/loop"),
        (
            {"properties": {"a~/b": {"$ref": "#/$defs/loop"}}, "$defs": {"loop": LOOP}},
            "/$defs/loop",
        ),
    ],
)
def test_a_part_that_requires_itself_is_refused(schema: dict[str, Any], pointer: str) -> None:
    with pytest.raises(SchemaNotEnforceable, match="No finite value") as refused:
        check_schema(schema)
    assert refused.value.pointer == pointer


@pytest.mark.parametrize("pattern", ["/^a$/i", "a^", r"^[^\s\S]$", r"^(?:[^\s\S]+|$a)"])
def test_a_pattern_that_no_string_matches_is_refused_wherever_it_is(pattern: str) -> None:
    schema = {"properties": {"a": {"items": {"type": ["string", "null"], "pattern": pattern}}}}
    with pytest.raises(SchemaNotEnforceable, match="No string matches") as refused:
        check_schema(schema)
    assert refused.value.pointer == "/properties/a/items/pattern"


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (requires({"type": "integer", "minimum": 5, "maximum": 3}), "/properties/a"),
        (requires({"$ref": "#/$defs/x"}, **{"$defs": {"x": NO_ARRAY}}), "/$defs/x"),
        (requires({"anyOf": [NO_ARRAY, {"enum": []}]}), "/properties/a/anyOf/0"),
        (requires(False, additionalProperties=False), "/properties/a"),
        ({"type": "object", "maxProperties": 0, "required": ["a"]}, ""),
        ({"type": "array", "items": False, "minItems": 1}, ""),
        ({"type": "object", "properties": {"a": NO_ARRAY}, "additionalProperties": False}, None),
    ],
)
def test_the_innermost_part_without_a_value_is_found(
    schema: dict[str, Any], pointer: str | None
) -> None:
    assert unsatisfiable_part(schema) == pointer


def test_long_reference_chains_are_checked_in_few_visits() -> None:
    links = 20_000
    chain = {f"a{at}": {"$ref": f"#/$defs/a{at + 1}"} for at in range(links)}
    check_schema({"$defs": {**chain, f"a{links}": {}}, "$ref": "#/$defs/a0"})
    with pytest.raises(SchemaNotEnforceable) as refused:
        check_schema({"$defs": chain | {f"a{links}": {"$ref": "#/$defs/a0"}}, "$ref": "#/$defs/a0"})
    assert refused.value.pointer == "/$defs/a0"
