"""References and dialects of a schema document, corrections, and open objects."""

import copy
import json
from pathlib import Path
from time import process_time

import pytest

from toolgate_core.errors import SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.schema.canonical import MAX_DEPTH, canonical_parameters
from toolgate_core.schema.corrections import corrected, corrections
from toolgate_core.schema.document import normalise
from toolgate_core.schema.preparation.checks import check_schema
from toolgate_core.schema.walk import (
    at_pointer,
    pointer_of_ref,
    reachable,
    subschemas,
)
from toolgate_core.tools import content_format, parse_tools

CASES = json.loads(Path(__file__).with_name("documents.json").read_text())

DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
NEWEST = "https://json-schema.org/draft/2020-12/schema"


def read(schema):
    found = normalise(schema)
    found.pop("$schema", None)
    return found


@pytest.mark.parametrize(("old", "new"), CASES["keywords_of_older_drafts_and_openapi_are_upgraded"])
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


@pytest.mark.parametrize(("ref", "pointer"), CASES["references_are_found_by_id_anchor_and_pointer"])
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
    assert all({"$id", "$anchor"}.isdisjoint(each) for _, each in subschemas(found))


@pytest.mark.parametrize(
    ("schema", "pointer"),
    CASES["unresolvable_references_are_refused_with_their_pointer"],
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
    schema = {"type": "string"}
    for _ in range(MAX_DEPTH):
        schema = {"properties": {"a": schema}}
    found = normalise(schema)
    assert sum(1 for _ in subschemas(found)) == MAX_DEPTH + 1
    assert sum(1 for _ in reachable(found)) == MAX_DEPTH + 1


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
    def schema(number):
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


SLIPS = CASES["meant"]


@pytest.mark.parametrize(("given", "meant", "pointer"), SLIPS.values(), ids=SLIPS)
def test_a_slip_with_one_meaning_is_read_as_it_was_meant(given, meant, pointer):
    before = copy.deepcopy(given)
    assert corrected(given) == meant
    pointers = pointer if isinstance(pointer, list) else [pointer]
    assert [each.pointer for each in corrections(given)] == pointers
    assert given == before, "the client's schema is unchanged"
    assert canonical_parameters(given) == canonical_parameters(meant)
    check_schema(canonical_parameters(given))


T = {"type": "integer", "enum": [1, 2]}
REFERENCES = CASES["references"]
LONG = "n" * 300
TARGETLESS = [*CASES["targetless"], ({"$defs": {LONG: T}}, f"#/definitions/{LONG}")]


def _referring(schema, ref):
    """The schema with a reference at `/properties/a/properties/it`."""
    schema = copy.deepcopy(schema)
    inner = schema.setdefault("properties", {}).setdefault("a", {})
    inner.setdefault("properties", {})["it"] = {"$ref": ref}
    return schema


@pytest.mark.parametrize(("schema", "ref"), REFERENCES.values(), ids=REFERENCES)
def test_a_reference_with_one_possible_target_is_read_as_one_to_it(schema, ref):
    given = _referring(schema, ref)
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


@pytest.mark.parametrize("schema", CASES["correct"])
def test_a_schema_without_slips_stays_the_same(schema):
    assert corrections(schema) == ()
    assert corrected(schema) is schema


@pytest.mark.parametrize("schema", CASES["ambiguous"])
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


@pytest.mark.parametrize(("given", "meant"), CASES["nullable_adds_null_to_the_types"])
def test_nullable_adds_null_to_the_types(given, meant):
    assert canonical_parameters({"properties": {"a": given}})["properties"]["a"] == meant
