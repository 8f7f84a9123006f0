"""Schemas of any draft, read as 2020-12 with pointers for references."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from toolgate_core.errors import SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.schema.document import normalise
from toolgate_core.schema.walk import find_keyword, reachable, subschemas

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
def test_keywords_of_older_drafts_and_openapi_are_upgraded(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert read(old) == new
    assert read({"properties": {"a": old}}) == {"properties": {"a": new}}


def test_keywords_newer_than_the_draft_are_ignored() -> None:
    assert read({"$schema": DRAFT4, "const": 1, "minimum": 1}) == {"minimum": 1}
    assert read({"$schema": DRAFT7, "const": 1, "dependentRequired": {}}) == {"const": 1}
    assert read({"$schema": NEWEST, "prefixItems": [{}]}) == {"prefixItems": [{}]}


def test_siblings_of_a_reference_apply_since_draft_2019_09() -> None:
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
def test_references_are_found_by_id_anchor_and_pointer(ref: str, pointer: str) -> None:
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
def test_unresolvable_references_are_refused_with_their_pointer(
    schema: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(SchemaNotEnforceable) as refused:
        normalise(schema, param="tools[0]")
    assert refused.value.pointer == pointer
    assert refused.value.param == "tools[0]"


def test_a_dynamic_reference_with_one_target_becomes_a_plain_reference() -> None:
    tree = {"$dynamicAnchor": "node", "properties": {"left": {"$dynamicRef": "#node"}}}
    assert read(tree) == {"properties": {"left": {"$ref": "#"}}}
    two = {"$defs": {"other": {"$id": "other", "$dynamicAnchor": "node"}}, **tree}
    assert read(two) == two


def test_references_to_boolean_schemas_are_replaced() -> None:
    schema = {"$defs": {"y": True, "n": False}, "anyOf": [{"$ref": "#/$defs/y"}]}
    assert read(schema)["anyOf"] == [{}]
    schema["anyOf"] = [{"$ref": "#/$defs/n"}]
    assert read(schema)["anyOf"] == [{"not": {}}]


def test_normalising_does_not_change_its_argument() -> None:
    schema = {"items": [{"nullable": True, "type": "string"}]}
    normalise(schema)
    assert schema == {"items": [{"nullable": True, "type": "string"}]}


def test_deeply_nested_schemas_are_normalised() -> None:
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
def test_wide_schemas_are_normalised_in_seconds(schema: dict[str, Any]) -> None:
    began = process_time()
    normalise(schema)
    assert process_time() - began < 30  # with quadratic costs it is minutes


def test_upgraded_dependencies_keep_their_order() -> None:
    old = {"a": ["x"], "b": {}, "c": ["y"], "d": ["z"]}
    found = read({"dependencies": old, "dependentRequired": {"e": [], "c": ["w"]}})
    assert found == {
        "dependentRequired": {"d": ["z"], "c": ["w"], "a": ["x"], "e": []},
        "dependentSchemas": {"b": {}},
    }
    assert list(found["dependentRequired"]) == ["d", "c", "a", "e"]


def test_a_recursive_reference_with_one_anchor_becomes_a_plain_reference() -> None:
    tree = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": True,
        "properties": {"left": {"$recursiveRef": "#"}},
    }
    assert read(tree) == {"properties": {"left": {"$ref": "#"}}}
    with pytest.raises(SchemaNotEnforceable, match="over several schemas"):
        normalise(tree | {"$defs": {"other": {"$recursiveAnchor": True}}})


def test_the_total_length_of_references_is_limited() -> None:
    def schema(number: int) -> dict[str, Any]:
        far = {"N" * 10_000: {"properties": {"a": {"$anchor": "x"}}}}
        return {"$defs": far, "anyOf": [{"$ref": "#x"}] * number}

    assert len(read(schema(100))["anyOf"]) == 100
    with pytest.raises(SchemaTooComplex):
        read(schema(250))


def test_unused_definitions_are_not_reachable() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"items": {"$ref": "#"}}, "b": {"not": {}}},
    }
    found = [pointer for pointer, _ in reachable(schema)]
    assert found == ["", "/properties/a", "/$defs/a", "/$defs/a/items"]
