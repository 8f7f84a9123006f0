"""`oneOf` becomes `anyOf` where its alternatives can be made to exclude each other."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from toolgate_core.schema.additional_properties import with_open_objects
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.prepare import prepare, prepare_closed
from toolgate_core.schema.preparation.rewrites.rewriting import rewritten

S = {"type": "string"}


def members(*names: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, S), "required": [*names], **more}


@pytest.mark.parametrize(
    "options",
    [
        [{"$ref": "#/$defs/list"}, {"$ref": "#/$defs/text"}, {"type": "null"}],
        [members("a"), members("b")],
        [members("a", "c"), members("b", "c")],
        [{"required": ["a"]}, {"required": ["b", "c"]}],
        [{"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"required": ["c"]}],
        [S, {"enum": ["x", "y"]}],
        [{"type": "number"}, {"type": "number", "minimum": 3}],
        [members("kind", properties={"kind": {"const": kind}}) for kind in "abc"],
    ],
)
def test_masks_enforce_it(options: list[Any]) -> None:
    """Also where an alternative refers to a schema that contains the `oneOf`."""
    schema = {
        "properties": {"v": {"oneOf": options}},
        "$defs": {"list": {"type": "array", "items": {"$ref": "#/properties/v"}}, "text": S},
    }
    assert not prepare(canonical_schema(schema, param="schema")).residual


def test_alternatives_that_are_contained_in_others_vanish() -> None:
    schema = canonical_schema({"oneOf": [S, {"enum": ["x"]}, {"type": "null"}]}, param="schema")
    made = rewritten(schema).finish()
    assert len(made["anyOf"]) == 2
    assert "oneOf" not in made


def test_references_into_the_alternatives_keep_their_targets() -> None:
    schema = canonical_schema(
        {
            "properties": {
                "a": {"oneOf": [members("x"), members("y")]},
                "b": {"$ref": "#/properties/a/oneOf/1"},
            }
        },
        param="schema",
    )
    made = prepare(schema)
    assert not made.residual
    assert jsonschema_rs.is_valid(made.schema, {"a": {"x": ""}, "b": {"y": ""}})
    assert not jsonschema_rs.is_valid(made.schema, {"b": {"x": ""}})
    assert not jsonschema_rs.is_valid(made.schema, {"a": {"x": "", "y": ""}})


def test_residual_keywords_inside_have_their_given_places() -> None:
    unique = {"type": "array", "items": S, "uniqueItems": True}
    schema = canonical_schema(
        {
            "properties": {
                "a": {"anyOf": [{}], "oneOf": [S, unique]},
                "b": {"oneOf": [members("x"), members("y", "z")]},
            }
        },
        param="schema",
    )
    assert [each.pointer for each in prepare(schema).residual] == [
        "/properties/a/oneOf/1/uniqueItems"
    ]


def test_overlapping_patterns_are_left_to_validation() -> None:
    made = prepare({"type": "string", "oneOf": [{"format": "iri"}, {"format": "uri-template"}]})
    assert "/oneOf" in {each.pointer for each in made.residual}


def test_undeclared_members_may_be_what_alternatives_differ_in() -> None:
    """Only where objects that declare properties may be closed."""
    more = {"type": "array", "items": {"type": "integer"}}
    left: dict[str, Any] = {"type": "object", "properties": {"a": S}, "required": ["a"]}
    right = {"properties": {"b": more}, "required": ["b"]}
    schema = canonical_schema({"oneOf": [left, right | {"type": "object"}]}, param="schema")
    assert prepare(schema).residual
    closed = prepare_closed(schema)
    assert not closed.residual
    accepts = jsonschema_rs.validator_for(closed.schema).is_valid
    assert accepts({"a": ""})
    assert accepts({"b": [1]})
    assert not accepts({"a": "", "b": [1]})
    opened = prepare_closed(with_open_objects(schema))
    assert [each.keyword for each in opened.residual] == ["oneOf"]


def test_objects_that_other_schemas_extend_are_not_closed() -> None:
    """Their members are declared elsewhere, too."""
    more = {"type": "array", "items": {"type": "integer"}}
    left: dict[str, Any] = {"type": "object", "properties": {"a": S}, "required": ["a"]}
    right: dict[str, Any] = {"properties": {"b": more}, "required": ["b"], "type": "object"}
    base = {"$ref": "#/$defs/base"}
    extension = {"properties": {"c": S}}
    schema = canonical_schema(
        {
            "$defs": {"base": {"oneOf": [left, right]}},
            "properties": {"v": {"allOf": [base, extension]}},
        },
        param="schema",
    )
    assert [each.pointer for each in prepare_closed(schema).residual] == ["/$defs/base/oneOf"]
