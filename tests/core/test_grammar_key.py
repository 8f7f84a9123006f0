import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate_core import grammar_key
from toolgate_core.errors import InvalidTools, SchemaTooComplex
from toolgate_core.schema.canonical import MAX_NODES, canonical_parameters

SCHEMA = {
    "type": "object",
    "description": "where",
    "properties": {
        "description": {"type": "string", "title": "What", "maxLength": 10},
        "count": {"type": "integer", "minimum": 1.0, "default": 3},
    },
    "required": ["description", "count"],
}


def hashed(schema):
    return grammar_key.tool_hash("tool", canonical_parameters(schema))


def test_annotations_are_removed_but_properties_with_their_names_are_kept():
    canonical = canonical_parameters(SCHEMA)
    assert list(canonical["properties"]) == ["description", "count"]
    assert canonical["properties"]["description"] == {"maxLength": 10, "type": "string"}
    assert canonical["properties"]["count"] == {"minimum": 1, "type": "integer"}
    assert "description" not in canonical


def test_the_key_ignores_differences_that_do_not_change_the_grammar():
    other = {
        "required": ["count", "description"],
        "properties": {
            "description": {"maxLength": 1e1, "type": "string"},
            "count": {"type": "integer", "description": "how many", "minimum": 1},
        },
        "type": "object",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
    }
    assert hashed(SCHEMA) == hashed(other)


def test_an_empty_required_list_equals_a_missing_one():
    part = {"type": "object", "properties": {"required": {"type": "string", "enum": []}}}
    schema = part | {"properties": {"part": part}}
    said = part | {"properties": {"part": part | {"required": []}}, "required": []}
    assert hashed(said) == hashed(schema)
    assert canonical_parameters(said)["properties"]["part"]["properties"] == part["properties"]
    assert hashed(schema | {"required": ["part"]}) != hashed(schema)


@pytest.mark.parametrize(
    "change",
    [
        {"required": ["count"]},
        {"additionalProperties": False},
        {"properties": dict(reversed(SCHEMA["properties"].items()))},
        {"properties": {"description": {"type": "string"}, "count": {"type": "integer"}}},
    ],
)
def test_the_key_depends_on_everything_that_changes_the_grammar(change):
    assert hashed(SCHEMA) != hashed(SCHEMA | change)


def test_the_tool_name_is_part_of_the_hash():
    assert grammar_key.tool_hash("a", SCHEMA) != grammar_key.tool_hash("b", SCHEMA)


def test_enum_values_are_not_treated_as_schemas():
    schema = {"type": "object", "properties": {"a": {"enum": [{"title": "x", "b": 1}]}}}
    assert canonical_parameters(schema)["properties"]["a"] == {"enum": [{"title": "x", "b": 1}]}


@pytest.mark.parametrize(
    "schema", [[], "x", {"type": "string"}, {"type": ["object", "null"]}, {"type": "ARRAY"}]
)
def test_parameters_that_are_not_an_object_schema_are_refused(schema):
    with pytest.raises(InvalidTools, match="object"):
        canonical_parameters(schema)


def test_deeply_nested_parameters_are_refused_without_recursion():
    deep = {}
    for _ in range(20_000):
        deep = {"items": deep}
    with pytest.raises(InvalidTools, match="deeper"):
        canonical_parameters({"type": "object", "properties": {"a": deep}})


@pytest.mark.parametrize(
    "number", [float("nan"), float("inf"), 10**5000], ids=["nan", "inf", "huge"]
)
def test_values_that_json_cannot_represent_are_refused(number):
    schema = canonical_parameters({"properties": {"a": {"minimum": number}}})
    with pytest.raises(InvalidTools, match="not valid JSON"):
        grammar_key.tool_hash("tool", schema)


# References, which hypothesis knows from our code, would lead nowhere.
names = st.text(max_size=8).filter(lambda name: not name.startswith("$"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(names.filter(lambda name: name != "type"), json_values, max_size=5))
def test_canonicalisation_is_idempotent(schema):
    once = canonical_parameters(schema)
    assert canonical_parameters(once) == once


@given(st.dictionaries(st.sampled_from(["minimum", "enum", "required", "items"]), json_values))
def test_the_hash_does_not_depend_on_keyword_order(schema):
    assert hashed(schema) == hashed(dict(reversed(schema.items())))


def test_schemas_with_too_many_values_are_refused_early():
    enum = list(range(MAX_NODES))
    with pytest.raises(SchemaTooComplex, match="100,000"):
        canonical_parameters({"properties": {"a": {"enum": enum}}})
    examples = {"examples": enum[: MAX_NODES // 2]}
    assert canonical_parameters({"type": "object"} | examples) == {"type": "object"}
