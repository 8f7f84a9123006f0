"""Which keywords are rewritten, which ones are residual, and which schemas are refused."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from toolgate_core.errors import SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.schema.canonical import canonical_json, canonical_schema
from toolgate_core.schema.patterns import is_maskable
from toolgate_core.schema.preparation.engine_form import PropertyOrder, to_engine_form
from toolgate_core.schema.preparation.prepare import prepare, prepare_canonical, prepare_compilable

X = {"type": "string"}


def validator(schema: Any) -> Any:
    return jsonschema_rs.validator_for(schema, validate_formats=True)


def members(*names: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, X), "required": [*names], **more}


@pytest.mark.parametrize(
    "options",
    [
        [{"$ref": "#/$defs/list"}, {"$ref": "#/$defs/text"}, {"type": "null"}],
        [members("a"), members("b")],
        [members("a", "c"), members("b", "c")],
        [{"required": ["a"]}, {"required": ["b", "c"]}],
        [{"type": "number"}, {"type": "number", "minimum": 3}],
        [members("kind", properties={"kind": {"const": kind}}) for kind in "abc"],
    ],
)
def test_masks_enforce_one_of_with_alternatives_that_exclude_each_other(options: list[Any]) -> None:
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
def test_rewritten_keywords_are_not_residual(schema: dict[str, Any], rewritten: Any) -> None:
    made = prepare(schema)
    assert not made.residual
    if isinstance(rewritten, dict):
        assert made.schema == rewritten
    else:
        assert made.schema.keys() & rewritten


@pytest.mark.parametrize(
    ("schema", "pointers"),
    [
        ({"items": {"uniqueItems": True, "items": X}}, ["/items/uniqueItems"]),
        ({"properties": {"a/b": {"format": "regex"}}}, ["/properties/a~1b/format"]),
        ({"properties": {"a": {"pattern": r"a\b"}, "b": X}}, ["/properties/a/pattern"]),
        ({"multipleOf": 2, "type": "integer"}, ["/multipleOf"]),
        ({"const": 1e300}, ["/const"]),
        ({"oneOf": [{"minLength": 2, "format": "regex"}, {"maxLength": 3}]}, 2),
        ({"not": {"$ref": "#/$defs/x"}, "items": {"$ref": "#/$defs/x"}}, 2),
        (
            {
                "properties": {"a": {"oneOf": [{"type": "null"}, X]}, "b": {"uniqueItems": True}},
                "type": "object",
            },
            ["/properties/b/uniqueItems"],
        ),
        (
            {"contains": X, "unevaluatedItems": False, "type": "array"},
            ["/contains", "/unevaluatedItems"],
        ),
    ],
)
def test_residual_keywords_have_their_pointers(schema: dict[str, Any], pointers: Any) -> None:
    schema = schema | {"$defs": {"x": {"type": "array", "uniqueItems": True}}}
    found = [occurrence.pointer for occurrence in prepare(schema).residual]
    assert found == pointers if isinstance(pointers, list) else len(found) == pointers


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"type": "strange"}}}, "/properties/a/type"),
        ({"minLength": -1}, "/minLength"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, ""),
        ({"not": {}}, ""),
    ],
)
def test_invalid_and_unsatisfiable_schemas_are_refused(
    schema: dict[str, Any], pointer: str
) -> None:
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
def test_contradictory_optional_properties_are_excluded_from_the_canonical_form(
    contradiction: dict[str, Any],
) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": contradiction, "b": X}}
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


def test_a_pattern_of_names_beside_declared_properties_is_left_to_validation() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"name": X},
        "propertyNames": {"pattern": "^[a-z]+$"},
    }
    made = prepare(schema)
    assert [each.pointer for each in made.residual] == ["/propertyNames"]
    assert validator(made.schema).is_valid({"name": "x", "b": 1})
    assert not validator(made.schema).is_valid({"name": 1})


def test_too_deep_schemas_are_refused_before_native_code_runs() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5_000):
        schema = {"not": schema}
    with pytest.raises(SchemaTooComplex):
        prepare(schema)


def test_keywords_are_removed_until_an_engine_compiles_the_rest() -> None:
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

    def compiles(form: dict[str, Any]) -> bool:
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


def test_properties_keep_their_order() -> None:
    schema = {
        "type": "object",
        "properties": {"z": X, "a": X, "m": {"oneOf": [{"type": "null"}, X]}},
        "allOf": [{"required": ["z"]}],
    }
    assert list(prepare(schema).schema["properties"]) == ["z", "a", "m"]


@pytest.mark.parametrize(
    ("pattern", "can"),
    [
        ("^a$", True),
        (r"\\b", True),
        (r"(?:a)\d", True),
        (r"(?=a)\wb", False),
        (r"(?<!a)b", False),
        (r"\bword", False),
        (r"(a)\1", False),
    ],
)
def test_unsupported_patterns_are_detected(pattern: str, can: bool) -> None:
    assert is_maskable(pattern) == can


def test_the_engine_form_is_idempotent() -> None:
    schema = {"properties": {"a": {"$ref": "#/properties/b"}, "b": {"format": "email"}}}
    once = to_engine_form(schema, PropertyOrder(schema))
    assert to_engine_form(once, PropertyOrder(once)) == once


def test_a_member_that_can_have_no_name_is_not_waited_for() -> None:
    """The grammar would have a state without an end."""
    closed = {
        "type": "object",
        "patternProperties": {"^[ab]{1}$": True},
        "additionalProperties": False,
    }
    assert not prepare(closed).residual
    nothing = {"patternProperties": {r"^[^\s\S]$": True}}
    assert prepare(closed | nothing).residual
