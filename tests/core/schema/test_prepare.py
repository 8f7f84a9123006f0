"""Preparation of schemas for the engines: what masks enforce, and what is left to validation."""

import json
from pathlib import Path
from unittest.mock import Mock

import jsonschema_rs
import pytest
from scripts.schema_support_counts import coverage

from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_json, canonical_parameters, canonical_schema
from toolgate_core.schema.keywords import ASSERTIONS
from toolgate_core.schema.patterns import is_maskable
from toolgate_core.schema.preparation import engine_form
from toolgate_core.schema.preparation.checks import check_schema, unsatisfiable_part
from toolgate_core.schema.preparation.engine_form import EXACT, PropertyOrder, to_engine_form
from toolgate_core.schema.preparation.prepare import (
    HARD,
    TOGETHER,
    prepare,
    prepare_canonical,
    prepare_compilable,
)
from toolgate_proxy.ops.admin.advice import ADVICE, advice_on

CASES = json.loads(Path(__file__).with_name("prepare.json").read_text())

X = {"type": "string"}


def validator(schema):
    return jsonschema_rs.validator_for(schema, validate_formats=True)


@pytest.mark.parametrize(
    "options",
    CASES["masks_enforce_one_of_with_alternatives_that_exclude_each_other"],
)
def test_masks_enforce_one_of_with_alternatives_that_exclude_each_other(options):
    """Also where an alternative refers to a schema that contains the `oneOf`."""
    schema = {
        "properties": {"v": {"oneOf": options}},
        "$defs": {"list": {"type": "array", "items": {"$ref": "#/properties/v"}}, "text": X},
    }
    assert not prepare(canonical_schema(schema, param="schema")).residual


@pytest.mark.parametrize(
    ("schema", "rewritten"),
    [
        ({"allOf": [{"minimum": 1}, {"type": "integer"}]}, {"minimum": 1, "type": "integer"}),
        ({"allOf": [{"type": "string"}, {"enum": ["a", 1]}]}, {"const": "a"}),
        ({"type": "integer", "not": {"const": 1}}, {"anyOf"}),
        ({"$ref": "#/$defs/x", "minLength": 1, "$defs": {"x": X}}, {"type", "minLength"}),
        ({"type": "object", "properties": {"a": X}, "not": {"required": ["a"]}}, {"properties"}),
        ({"type": "object", "propertyNames": {"enum": ["a"]}}, {"properties"}),
        ({"type": "array", "items": X, "uniqueItems": True, "maxItems": 1}, {"maxItems"}),
        ({"oneOf": [{"type": "null"}, X]}, {"type": ["null", "string"]}),
    ],
)
def test_rewritten_keywords_are_not_residual(schema, rewritten):
    made = prepare(schema)
    assert not made.residual
    if isinstance(rewritten, dict):
        assert made.schema == rewritten
    else:
        assert made.schema.keys() & rewritten


@pytest.mark.parametrize(("schema", "pointers"), CASES["residual_keywords_have_their_pointers"])
def test_residual_keywords_have_their_pointers(schema, pointers):
    schema = schema | {"$defs": {"x": {"type": "array", "uniqueItems": True}}}
    found = [occurrence.pointer for occurrence in prepare(schema).residual]
    assert found == pointers if isinstance(pointers, list) else len(found) == pointers


@pytest.mark.parametrize(
    ("schema", "pointer"),
    CASES["invalid_and_unsatisfiable_schemas_are_refused"],
)
def test_invalid_and_unsatisfiable_schemas_are_refused(schema, pointer):
    with pytest.raises(SchemaNotEnforceable) as refused:
        prepare(schema)
    assert refused.value.pointer == pointer


@pytest.mark.parametrize(
    "contradiction",
    [
        {"type": "number", "minimum": 1, "maximum": 0},
        {"type": "array", "minItems": 3, "maxItems": 1},
    ],
)
def test_contradictory_optional_properties_are_excluded_from_the_canonical_form(contradiction):
    schema = {"type": "object", "properties": {"a": contradiction, "b": X}}
    made = prepare_canonical(schema)
    assert made is not None
    assert not made.residual
    assert validator(made.schema).is_valid({"b": "x"})
    assert not validator(made.schema).is_valid({"a": []})
    with pytest.raises(SchemaNotEnforceable):
        prepare_canonical(schema | {"required": ["a"]})
    assert (
        prepare_canonical({"allOf": [schema, X]}) is None
    )  # not plain: `prepared` goes by that form


def test_a_pattern_of_names_beside_declared_properties_is_left_to_validation():
    schema = {
        "type": "object",
        "properties": {"name": X},
        "propertyNames": {"pattern": "^[a-z]+$"},
    }
    made = prepare(schema)
    assert [each.pointer for each in made.residual] == ["/propertyNames"]
    assert validator(made.schema).is_valid({"name": "x", "b": 1})
    assert not validator(made.schema).is_valid({"name": 1})


def test_keywords_are_removed_until_an_engine_compiles_the_rest():
    schema = canonical_schema(
        {
            "type": "object",
            "properties": {
                "a": {"$ref": "#/definitions/path"},
                "b": {"type": "string", "pattern": "^b$"},
                "c": {"type": "array", "uniqueItems": True},
                "d": {"type": "string", "format": "date"},
                "e": {"type": "string", "pattern": "^e", "format": "email"},
            },
            "definitions": {"path": {"type": "string", "pattern": "^a{1,900}$", "minLength": 1}},
        },
        param="schema",
    )

    def compiles(form):
        written = canonical_json(form)
        return "{1,900}" not in written and not ('"^e"' in written and "@" in written)

    made = prepare_compilable(schema, compiles)
    pointers = {each.pointer for each in made.residual}
    assert pointers == {
        "/definitions/path/pattern",
        "/properties/c/uniqueItems",
        "/properties/e/pattern",
    }
    accepts = validator(made.schema).is_valid
    assert accepts({"a": "x", "b": "b", "e": "x@y.de"})
    for other in ({"b": "c"}, {"a": ""}, {"d": "x"}, {"e": "e"}):
        assert not accepts(other)
    assert not prepare_compilable(schema["properties"]["b"], lambda _: True).residual


def test_properties_keep_their_order():
    schema = {
        "type": "object",
        "properties": {"z": X, "a": X, "m": {"oneOf": [{"type": "null"}, X]}},
        "allOf": [{"required": ["z"]}],
    }
    assert list(prepare(schema).schema["properties"]) == ["z", "a", "m"]


@pytest.mark.parametrize(("pattern", "can"), CASES["unsupported_patterns_are_detected"])
def test_unsupported_patterns_are_detected(pattern, can):
    assert is_maskable(pattern) == can


def test_the_engine_form_is_idempotent():
    schema = {"properties": {"a": {"$ref": "#/properties/b"}, "b": {"format": "email"}}}
    once = to_engine_form(schema, PropertyOrder(schema))
    assert to_engine_form(once, PropertyOrder(once)) == once


def test_a_member_that_can_have_no_name_is_not_waited_for():
    """The grammar would have a state without an end."""
    closed = {
        "type": "object",
        "patternProperties": {"^[ab]{1}$": True},
        "additionalProperties": False,
    }
    assert not prepare(closed).residual
    nothing = {"patternProperties": {r"^[^\s\S]$": True}}
    assert prepare(closed | nothing).residual


SCHEMA = CASES["coverage"]["schema"]


def test_coverage_states_what_enforces_each_keyword():
    by = {each.pointer: each.enforced_by for each in coverage(SCHEMA, prepare(SCHEMA))}
    assert by == CASES["coverage"]["enforced by"]


def test_residual_keywords_have_a_reason_and_a_rewrite():
    residual = prepare(SCHEMA).residual
    assert [place.keyword for place in residual] == ["uniqueItems", "oneOf", "if", "then"]
    assert all(all(advice_on(SCHEMA, each.pointer, each.keyword)) for each in residual)


@pytest.mark.parametrize("keyword", sorted(HARD | {k for ks in TOGETHER.values() for k in ks}))
def test_every_possibly_residual_keyword_has_advice(keyword):
    assert keyword in ADVICE
    assert keyword in ASSERTIONS


@pytest.mark.parametrize(
    ("schema", "bound"),
    [
        ({"type": "integer", "minimum": 0, "multipleOf": 10}, EXACT),
        ({"type": "integer", "minimum": 0, "multipleOf": 10, "maximum": 2000}, 2000),
        # A larger number, in the schema or beside it, may ask for larger multiples.
        ({"type": "integer", "minimum": 0, "maximum": 2**64 - 1, "multipleOf": 10}, None),
        ({"type": ["integer", "null"], "minimum": 0, "maximum": 1e18, "multipleOf": 10}, None),
        ({"type": "integer", "minimum": EXACT, "multipleOf": 10}, None),
    ],
)
def test_multiples_are_bounded_unless_a_larger_number_may_ask_for_more(schema, bound):
    found = prepare({"type": "object", "properties": {"a": schema}}).schema["properties"]["a"]
    nodes = found.get("anyOf", [found])
    assert bound in [each.get("maximum") for each in nodes]
    if bound is None:
        assert EXACT not in [each.get("maximum") for each in nodes]


def test_a_larger_number_anywhere_keeps_multiples_unbounded():
    listed = {"type": "integer", "minimum": 0, "multipleOf": 10}
    for beside in ({"enum": [10**16, 20]}, {"minimum": 10**16}):
        schema = {"type": "object", "properties": {"a": listed, "b": beside}}
        assert "maximum" not in prepare(schema).schema["properties"]["a"]


OUT_OF_REACH = {"type": "object", "propertyNames": {"pattern": r"^(?=.*\bx\b)(?!a)"}}
"""No grammar engine enforces it."""


def residual_of(bad, count):
    """The residual pointers of a schema with `count` members of hard keywords."""
    fine = {"type": "integer", "not": {"enum": [3, 4]}}
    members = {f"m{at}": OUT_OF_REACH if at in bad else fine for at in range(count)}
    schema = canonical_parameters({"type": "object", "properties": members})
    return [each.pointer for each in prepare(schema).residual]


@pytest.mark.parametrize("bad", [{0}, {31}, {7, 8}, {3, 17, 29}, set(range(32))], ids=str)
def test_only_occurrences_that_cannot_be_enforced_are_removed(bad):
    names = {pointer.split("/")[2] for pointer in residual_of(bad, 32)}
    assert names == {f"m{at}" for at in bad}


def test_occurrences_are_tried_in_groups(monkeypatch):
    spy = Mock(wraps=engine_form.canonical_engine_form)
    monkeypatch.setattr(engine_form, "canonical_engine_form", spy)
    assert residual_of({5}, 32)
    assert 0 < spy.call_count <= 16


@pytest.mark.parametrize("schema", CASES["a_schema_with_a_finite_value_is_accepted"])
def test_a_schema_with_a_finite_value_is_accepted(schema):
    check_schema(schema)


@pytest.mark.parametrize(("schema", "pointer"), CASES["a_part_that_requires_itself_is_refused"])
def test_a_part_that_requires_itself_is_refused(schema, pointer):
    with pytest.raises(SchemaNotEnforceable, match="No finite value") as refused:
        check_schema(schema)
    assert refused.value.pointer == pointer


LOOP = {"type": "object", "properties": {"next": {"$ref": "#/$defs/loop"}}, "required": ["next"]}
NO_TEXT = ["/^a$/i", "a^", r"^[^\s\S]$", r"^(?:[^\s\S]+|$a)"]


@pytest.mark.parametrize("part", [{"$ref": "#/$defs/loop"}, *({"pattern": p} for p in NO_TEXT)])
def test_a_part_without_a_value_is_refused_where_it_is_required_and_otherwise_left_out(part):
    part = part if "$ref" in part else {"type": "string", **part}
    several = {"type": ["string", "null"], "pattern": "a^"}
    members = {"a~/b": part, "some": {"type": "array", "items": part}, "c": X, "d": several}
    schema = {"type": "object", "properties": members, "$defs": {"loop": LOOP}}
    made = prepare(canonical_parameters(schema))
    judge = validator(made.schema)
    for value, is_valid in [
        *(({"some": [], "c": "x", "d": None}, True), ({}, True), ({"c": 1}, False)),
        *(({"a~/b": each}, False) for each in ({"next": {}}, "a", "/a/i", {})),
        *(({"some": [each]}, False) for each in ({"next": {}}, "a")),
    ]:
        assert judge.is_valid(value) == is_valid, value
    with pytest.raises(SchemaNotEnforceable, match=r"No (finite|string)") as refused:
        prepare(canonical_parameters(schema | {"required": ["a~/b"]}))
    is_loop = "$ref" in part
    assert refused.value.pointer == ("/$defs/loop" if is_loop else "/properties/a~0~1b/pattern")


UNIQUE, LISTS = {"uniqueItems": True}, {"uniqueItems": False}
DEFS = {"e": {"enum": ["x", "y"]}}


@pytest.mark.parametrize(
    ("items", "counts", "number"),
    [
        ({"enum": ["a", "b", "c"]}, {}, 16),
        ({"$ref": "#/$defs/e"}, {"minItems": 1}, 4),
        ({"type": "string", "enum": [*"abcdef"]}, {"maxItems": 2}, 37),
        ({"enum": [1, 1.0, True, "1", None, ["x"], {"x": 1}]}, {"maxItems": 2}, 37),
        ({"enum": [*"abcdef"]}, {}, None),
        ({"type": "string"}, {}, None),
        ({"enum": [*"abc"]}, {"contains": {"const": "a"}, "maxItems": 3}, 11),
        ({"enum": [*"xyz"]}, {"contains": {"$ref": "#/$defs/e"}, "minContains": 2}, 8),
        ({"enum": [*"ab"]}, LISTS | {"contains": {"const": "a"}, "maxItems": 3}, 11),
        ({"enum": ["a"]}, LISTS | {"contains": {"const": "a"}, "minItems": 1}, None),
        ({"enum": ["a"]}, LISTS | {"contains": {"const": "a"}, "minItems": 600}, None),
        ({"type": "string"}, LISTS | {"contains": {"const": "a"}, "maxItems": 3}, None),
    ],
)
def test_few_arrays_are_listed(items, counts, number):
    """Those of distinct items, and those that contain what they must."""
    schema = {"type": "array", **UNIQUE, "items": items, **counts, "$defs": DEFS}
    made = prepare(canonical_schema(schema, param="schema"))
    assert bool(made.residual) == (number is None)
    if number is not None:
        listed = made.schema["enum"]
        assert len({canonical_json(each) for each in listed}) == len(listed) == number
        assert all(map(validator(schema).is_valid, listed))


@pytest.mark.parametrize(
    ("schema", "pointer"), CASES["the_innermost_part_without_a_value_is_found"]
)
def test_the_innermost_part_without_a_value_is_found(schema, pointer):
    assert unsatisfiable_part(schema) == pointer


def test_long_reference_chains_are_checked_in_few_visits():
    links = 5_000
    chain = {f"a{at}": {"$ref": f"#/$defs/a{at + 1}"} for at in range(links)}
    check_schema({"$defs": {**chain, f"a{links}": {}}, "$ref": "#/$defs/a0"})
    with pytest.raises(SchemaNotEnforceable) as refused:
        check_schema({"$defs": chain | {f"a{links}": {"$ref": "#/$defs/a0"}}, "$ref": "#/$defs/a0"})
    assert refused.value.pointer == "/$defs/a0"
