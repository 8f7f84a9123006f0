"""Slips with one possible meaning are read as they were meant; others stay invalid."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from toolgate_core.errors import InvalidTools, SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.schema.corrections import corrected, corrections
from toolgate_core.schema.preparation.checks import check_schema
from toolgate_core.schema.walk import at_pointer, pointer_of_ref
from toolgate_core.tools import content_format, parse_tools

S = {"type": "string"}
MEANT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "null for a list (Go)": (
        {"properties": {"a": S}, "required": None},
        {"properties": {"a": S}},
        "/required",
    ),
    "null for a map (Go)": ({"properties": None}, {"properties": {}}, "/properties"),
    "[] for a map (PHP)": ({"properties": []}, {"properties": {}}, "/properties"),
    "[] for a schema (PHP)": (
        {"properties": {"a": {"type": "array", "items": []}}},
        {"properties": {"a": {"type": "array", "items": {}}}},
        "/properties/a/items",
    ),
    "[] for definitions (PHP)": (
        {"$defs": [], "type": "object"},
        {"$defs": {}, "type": "object"},
        "/$defs",
    ),
    "null for a schema": (
        {"additionalProperties": None, "type": "object"},
        {"type": "object"},
        "/additionalProperties",
    ),
    "null for a bound": (
        {"properties": {"a": {"type": "integer", "minimum": None, "maximum": 3}}},
        {"properties": {"a": {"type": "integer", "maximum": 3}}},
        "/properties/a/minimum",
    ),
    "null for an enum": (
        {"properties": {"a": {"type": "string", "enum": None}}},
        {"properties": {"a": S}},
        "/properties/a/enum",
    ),
    "types in capitals (Gemini)": (
        {"type": "OBJECT", "properties": {}},
        {"type": "object", "properties": {}},
        "/type",
    ),
    "a list of types in capitals": (
        {"properties": {"a/b": {"type": ["STRING", "Null"]}}},
        {"properties": {"a/b": {"type": ["string", "null"]}}},
        "/properties/a~1b/type",
    ),
    "types of programming languages": (
        {"properties": {"a": {"type": ["int", "Float", "null", "double"]}}},
        {"properties": {"a": {"type": ["integer", "number", "null"]}}},
        "/properties/a/type",
    ),
    "a number in quotation marks": (
        {"properties": {"a": {"type": "integer", "minimum": "-1", "maximum": 3}}},
        {"properties": {"a": {"type": "integer", "minimum": -1, "maximum": 3}}},
        "/properties/a/minimum",
    ),
    "a length in quotation marks": (
        {"properties": {"a": S | {"maxLength": "8"}}},
        {"properties": {"a": S | {"maxLength": 8}}},
        "/properties/a/maxLength",
    ),
    "required in a member (draft 3)": (
        {"properties": {"a": S | {"required": True}, "b": S}},
        {"properties": {"a": S, "b": S}, "required": ["a"]},
        "/properties/a/required",
    ),
    "not required in a member (draft 3)": (
        {"properties": {"a": S | {"required": False}}, "required": ["a"]},
        {"properties": {"a": S}, "required": ["a"]},
        "/properties/a/required",
    ),
    "a slip in a definition": (
        {"$defs": {"n": {"type": "Integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}},
        {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}},
        "/$defs/n/type",
    ),
}


@pytest.mark.parametrize("name", MEANT)
def test_a_slip_with_one_meaning_is_read_as_it_was_meant(name: str) -> None:
    given, meant, pointer = MEANT[name]
    before = copy.deepcopy(given)
    assert corrected(given) == meant
    assert [each.pointer for each in corrections(given)] == [pointer]
    assert given == before, "the client's schema is unchanged"
    assert canonical_parameters(given) == canonical_parameters(meant)
    check_schema(canonical_parameters(given))


T = {"type": "integer", "enum": [1, 2]}
OTHER = {"type": "boolean"}
REFERENCES: dict[str, tuple[dict[str, Any], str]] = {
    "an unescaped slash (zod)": ({"$defs": {"a/b": T, "b": OTHER}}, "#/$defs/a/b"),
    "an encoded name": ({"definitions": {"P%3CT%3E": T}}, "#/definitions/P%3CT%3E"),
    "a name that is encoded twice": ({"definitions": {"P<T>": T}}, "#/definitions/P%253CT%253E"),
    "definitions for $defs": ({"$defs": {"n": T}}, "#/definitions/n"),
    "components of OpenAPI": ({"definitions": {"n": T}}, "#/components/schemas/n"),
    "nothing before the name": ({"$defs": {"n": T}}, "#/n"),
    "a place in a definition": ({"$defs": {"n": {"properties": {"x/y": T}}}},
                                "#/definitions/n/properties/x/y"),
    "definitions of a member": ({"properties": {"z": {"$defs": {"n": T}}}}, "#/$defs/n"),
    "definitions of the member around it": (
        {"properties": {"a": {"$defs": {"n": T}}, "z": {"$defs": {"n": OTHER}}}}, "#/$defs/n"
    ),
    "a pointer from the member around it": (
        {"properties": {"a": {"properties": {"first": T}}}}, "#/properties/first"
    ),
}  # fmt: skip
TARGETLESS: list[tuple[dict[str, Any], str]] = [
    ({}, "#/components/schemas/n"),
    ({"$defs": {"a/b": T, "a%2Fb": OTHER}}, "#/$defs/a/b"),
    ({"properties": {"y": {"$defs": {"n": T}}, "z": {"$defs": {"n": OTHER}}}}, "#/$defs/n"),
    ({"$defs": {"n": T}, "properties": {"z": {"$id": "z"}}}, "#/definitions/n"),
    ({"$defs": {"n": T}}, "n.json#/$defs/n"),
    ({"$defs": {"n" * 300: T}}, f"#/definitions/{'n' * 300}"),
]


def _referring(schema: dict[str, Any], ref: str) -> dict[str, Any]:
    """The schema with a reference at `/properties/a/properties/it`."""
    schema = copy.deepcopy(schema)
    inner = schema.setdefault("properties", {}).setdefault("a", {})
    inner.setdefault("properties", {})["it"] = {"$ref": ref}
    return schema


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_with_one_possible_target_is_read_as_one_to_it(name: str) -> None:
    given = _referring(*REFERENCES[name])
    assert [each.pointer for each in corrections(given)] == ["/properties/a/properties/it/$ref"]
    canonical = canonical_parameters(given)
    check_schema(canonical)
    reference = canonical["properties"]["a"]["properties"]["it"]["$ref"]
    assert at_pointer(canonical, pointer_of_ref(reference) or "") == T


@pytest.mark.parametrize(("schema", "ref"), TARGETLESS)
def test_a_reference_with_several_possible_targets_or_none_is_refused(
    schema: dict[str, Any], ref: str
) -> None:
    with pytest.raises(SchemaNotEnforceable) as refused:
        canonical_parameters(_referring(schema, ref))
    assert refused.value.pointer == "/properties/a/properties/it/$ref"


def test_members_in_members_are_required_by_the_object_around_them() -> None:
    inner = {"type": "object", "required": True, "properties": {"x": S | {"required": True}}}
    given = {"properties": {"a": inner, "b": S | {"required": True}}, "required": ["b"]}
    assert corrected(given) == {
        "properties": {
            "a": {"type": "object", "properties": {"x": S}, "required": ["x"]},
            "b": S,
        },
        "required": ["b", "a"],
    }


CORRECT: list[dict[str, Any]] = [
    {},
    {"properties": {"a": {"enum": [None, []]}, "b": {"const": None}, "c": {"default": None}}},
    {"properties": {"required": S, "type": {"type": "string"}, "properties": {"type": "array"}}},
    {"properties": {"a": True, "b": {"items": False}}},
]


@pytest.mark.parametrize("schema", CORRECT)
def test_a_schema_without_slips_stays_the_same(schema: dict[str, Any]) -> None:
    assert corrections(schema) == ()
    assert corrected(schema) is schema


AMBIGUOUS: list[dict[str, Any]] = [
    {"properties": {"a": {"type": "date-time"}}},
    {"properties": {"a": {"type": "string[]"}}},
    {"properties": {"a": {"type": "any"}}},
    {"properties": {"a": S | {"maxLength": "8 characters"}}},
    {"properties": {"a": {"type": None}}},
    {"properties": {"a": S | {"minimum": "2024-01-01"}}},
    {"properties": {"a": S, "required": ["a"]}},
    {"properties": {"a": S, "required": []}},
    {"properties": {"a": S}, "required": True},
    {"properties": {"a": S}, "required": "a"},
    {"properties": {"a": S | {"required": True}}, "required": {}},
    {"properties": {"a": None}},
]


@pytest.mark.parametrize("schema", AMBIGUOUS)
def test_what_has_several_meanings_stays_invalid(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaNotEnforceable) as refused:
        check_schema(canonical_parameters(schema))
    assert refused.value.pointer


def test_a_tool_has_its_corrections_and_its_definition_for_the_template() -> None:
    given = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "description": "A."}}}
    entry = {"type": "function", "function": {"name": "f", "parameters": given}}
    for _ in range(2):  # the second time from the cache
        [tool] = parse_tools([entry])
        assert [each.keyword for each in tool.corrections] == ["type", "type"]
        assert tool.definition["function"]["parameters"] == {
            "type": "object",
            "properties": {"a": {"type": "string", "description": "A."}},
        }
    assert content_format(given, param="it").corrections == tool.corrections


def test_parameters_of_another_type_are_refused_after_correction() -> None:
    with pytest.raises(InvalidTools, match="object"):
        canonical_parameters({"type": "ARRAY"})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": ["string"], "nullable": True}, {"type": ["string", "null"]}),
        ({"type": ["string", "null"], "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"enum": ["a"], "nullable": True}, {"enum": ["a"]}),
    ],
)
def test_nullable_adds_null_to_the_types(given: dict[str, Any], meant: dict[str, Any]) -> None:
    assert canonical_parameters({"properties": {"a": given}})["properties"]["a"] == meant
