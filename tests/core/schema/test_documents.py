"""References and dialects of a schema document, corrections, and open objects."""

from __future__ import annotations

import copy
from time import process_time
from typing import Any

import pytest

from toolgate_core.errors import InvalidTools, SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.schema.corrections import corrected, corrections
from toolgate_core.schema.document import normalise
from toolgate_core.schema.preparation.checks import check_schema
from toolgate_core.schema.walk import (
    at_pointer,
    find_keyword,
    pointer_of_ref,
    reachable,
    subschemas,
)
from toolgate_core.tools import content_format, parse_tools

DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
NEWEST = "https://json-schema.org/draft/2020-12/schema"


def read(schema: dict[str, Any]) -> Any:
    found = normalise(schema)
    found.pop("$schema", None)
    return found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"minimum": 3, "exclusiveMinimum": True}, {"exclusiveMinimum": 3}),
        ({"minimum": 3, "exclusiveMinimum": False}, {"minimum": 3}),
        ({"items": [{}], "additionalItems": False}, {"prefixItems": [{}], "items": False}),
        ({"items": {}, "additionalItems": False}, {"items": {}}),
        ({"dependencies": {"a": ["b"]}}, {"dependentRequired": {"a": ["b"]}}),
        ({"dependencies": {"a": {"type": "null"}}}, {"dependentSchemas": {"a": {"type": "null"}}}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
    ],
)
def test_keywords_of_older_drafts_and_openapi_are_upgraded(old, new):
    assert read(old) == new
    assert read({"properties": {"a": old}}) == {"properties": {"a": new}}


def test_keywords_newer_than_the_draft_are_ignored():
    assert read({"$schema": DRAFT4, "const": 1, "minimum": 1}) == {"minimum": 1}
    assert read({"$schema": DRAFT7, "const": 1, "dependentRequired": {}}) == {"const": 1}
    assert read({"$schema": NEWEST, "prefixItems": [{}]}) == {"prefixItems": [{}]}


def test_siblings_of_a_reference_apply_since_draft_2019_09():
    schema = {"$ref": "#/definitions/a", "minimum": 1, "definitions": {"a": {}}}
    assert read(schema) == schema
    assert "minimum" not in read(schema | {"$schema": DRAFT7})


@pytest.mark.parametrize(
    ("ref", "pointer"),
    [
        ("#", "#"),
        ("#/$defs/a", "#/$defs/a"),
        ("#name", "#/$defs/a"),
        ("other.json", "#/$defs/b"),
        ("http://x.test/other.json#/$defs/c", "#/$defs/b/$defs/c"),
        ("other.json#deep", "#/$defs/b/$defs/c"),
        ("urn:example:u", "#/$defs/u"),
        ("#/$defs/with~1slash%25", "#/$defs/with~1slash%25"),
    ],
)
def test_references_are_found_by_id_anchor_and_pointer(ref, pointer):
    schema = {
        "$id": "http://x.test/root.json",
        "properties": {"p": {"$ref": ref}},
        "$defs": {
            "a": {"$anchor": "name"},
            "b": {"$id": "other.json", "$defs": {"c": {"$anchor": "deep"}}},
            "u": {"$id": "urn:example:u"},
            "with/slash%": {},
        },
    }
    found = read(schema)
    assert found["properties"]["p"]["$ref"] == pointer
    assert not find_keyword(found, "$id")
    assert not find_keyword(found, "$anchor")


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "https://example.com/schema"}, "/$ref"),
        ({"properties": {"a/b": {"items": {"$ref": "file.json"}}}}, "/properties/a~1b/items/$ref"),
        ({"$ref": "#/$defs/none"}, "/$ref"),
        ({"$ref": "#nowhere"}, "/$ref"),
        ({"$ref": "#/required", "required": ["a"]}, "/$ref"),
        ({"$ref": NEWEST}, "/$ref"),
        ({"items": {"$ref": "http://[#a"}}, "/items/$ref"),
        ({"$id": "http://[#a"}, "/$id"),
        ({"$id": "https://example.com", "items": {"$id": "//["}}, "/items/$id"),
    ],
)
def test_unresolvable_references_are_refused_with_their_pointer(schema, pointer):
    with pytest.raises(SchemaNotEnforceable) as refused:
        normalise(schema, param="tools[0]")
    assert refused.value.pointer == pointer
    assert refused.value.param == "tools[0]"


def test_a_dynamic_reference_with_one_target_becomes_a_plain_reference():
    tree = {"$dynamicAnchor": "node", "properties": {"left": {"$dynamicRef": "#node"}}}
    assert read(tree) == {"properties": {"left": {"$ref": "#"}}}
    two = {"$defs": {"other": {"$id": "other", "$dynamicAnchor": "node"}}, **tree}
    assert read(two) == two


def test_references_to_boolean_schemas_are_replaced():
    schema = {"$defs": {"y": True, "n": False}, "anyOf": [{"$ref": "#/$defs/y"}]}
    assert read(schema)["anyOf"] == [{}]
    schema["anyOf"] = [{"$ref": "#/$defs/n"}]
    assert read(schema)["anyOf"] == [{"not": {}}]


def test_normalising_does_not_change_its_argument():
    schema = {"items": [{"nullable": True, "type": "string"}]}
    normalise(schema)
    assert schema == {"items": [{"nullable": True, "type": "string"}]}


def test_deeply_nested_schemas_are_normalised():
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(20_000):
        schema = {"properties": {"a": schema}}
    found = normalise(schema)
    assert sum(1 for _ in subschemas(found)) == 20_001
    assert sum(1 for _ in reachable(found)) == 20_001


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "schema",
    [
        {"dependencies": {f"a{at}": [] for at in range(40_000)}},
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "properties": {f"a{at}": {"$recursiveRef": "#"} for at in range(15_000)},
        },
        {
            "properties": {"a": {"$ref": "#/x/0"}},
            "x": {str(at): {"$ref": f"#/x/{at + 1}"} for at in range(30_000)} | {"30000": {}},
        },
    ],
    ids=["dependencies", "$recursiveRef", "what is reached by references only"],
)
def test_wide_schemas_are_normalised_in_seconds(schema):
    began = process_time()
    normalise(schema)
    assert process_time() - began < 30  # with quadratic costs it is minutes


def test_upgraded_dependencies_keep_their_order():
    old = {"a": ["x"], "b": {}, "c": ["y"], "d": ["z"]}
    found = read({"dependencies": old, "dependentRequired": {"e": [], "c": ["w"]}})
    assert found == {
        "dependentRequired": {"d": ["z"], "c": ["w"], "a": ["x"], "e": []},
        "dependentSchemas": {"b": {}},
    }
    assert list(found["dependentRequired"]) == ["d", "c", "a", "e"]


def test_a_recursive_reference_with_one_anchor_becomes_a_plain_reference():
    tree = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": True,
        "properties": {"left": {"$recursiveRef": "#"}},
    }
    assert read(tree) == {"properties": {"left": {"$ref": "#"}}}
    with pytest.raises(SchemaNotEnforceable, match="over several schemas"):
        normalise(tree | {"$defs": {"other": {"$recursiveAnchor": True}}})


def test_the_total_length_of_references_is_limited():
    def schema(number: int) -> dict[str, Any]:
        far = {"N" * 10_000: {"properties": {"a": {"$anchor": "x"}}}}
        return {"$defs": far, "anyOf": [{"$ref": "#x"}] * number}

    assert len(read(schema(100))["anyOf"]) == 100
    with pytest.raises(SchemaTooComplex):
        read(schema(250))


def test_unused_definitions_are_not_reachable():
    schema = {
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"items": {"$ref": "#"}}, "b": {"not": {}}},
    }
    found = [pointer for pointer, _ in reachable(schema)]
    assert found == ["", "/properties/a", "/$defs/a", "/$defs/a/items"]


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
def test_a_slip_with_one_meaning_is_read_as_it_was_meant(name):
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
def test_a_reference_with_one_possible_target_is_read_as_one_to_it(name):
    given = _referring(*REFERENCES[name])
    assert [each.pointer for each in corrections(given)] == ["/properties/a/properties/it/$ref"]
    canonical = canonical_parameters(given)
    check_schema(canonical)
    reference = canonical["properties"]["a"]["properties"]["it"]["$ref"]
    assert at_pointer(canonical, pointer_of_ref(reference) or "") == T


@pytest.mark.parametrize(("schema", "ref"), TARGETLESS)
def test_a_reference_with_several_possible_targets_or_none_is_refused(schema, ref):
    with pytest.raises(SchemaNotEnforceable) as refused:
        canonical_parameters(_referring(schema, ref))
    assert refused.value.pointer == "/properties/a/properties/it/$ref"


def test_members_in_members_are_required_by_the_object_around_them():
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
def test_a_schema_without_slips_stays_the_same(schema):
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
def test_what_has_several_meanings_stays_invalid(schema):
    with pytest.raises(SchemaNotEnforceable) as refused:
        check_schema(canonical_parameters(schema))
    assert refused.value.pointer


def test_a_tool_has_its_corrections_and_its_definition_for_the_template():
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


def test_parameters_of_another_type_are_refused_after_correction():
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
def test_nullable_adds_null_to_the_types(given, meant):
    assert canonical_parameters({"properties": {"a": given}})["properties"]["a"] == meant
