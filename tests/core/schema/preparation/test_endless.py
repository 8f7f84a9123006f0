from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.preparation.contradictions import without_endless

NODE = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["next"],
}
LOOP = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/loop"}},
    "required": ["next"],
}
ENDLESS = {"$ref": "#/$defs/loop"}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},  # a string satisfies it
        {"type": ["object", "null"], "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"$defs": {"node": NODE}, "$ref": "#/$defs/node"},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 0},
        {"$ref": "https://example.com"},
        {"type": "object", "required": ["undeclared"]},
    ],
)
def test_schemas_with_a_finite_instance_are_satisfiable(schema: dict[str, Any]) -> None:
    assert without_endless(schema) is schema


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#"}, ""),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, ""),
        ({"anyOf": [{"$ref": "#"}, {"allOf": [{"type": "string"}, {"$ref": "#"}]}]}, ""),
        (
            {
                "type": "object",
                "properties": {"a~/b": {"$ref": "#/$defs/n"}},
                "required": ["a~/b"],
                "$defs": {"n": {"$ref": "#/$defs/n"}},
            },
            "/$defs/n",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/loop"}},
                "required": ["a"],
                "$defs": {"loop": LOOP},
            },
            "/$defs/loop",
        ),
    ],
)
def test_a_schema_without_a_finite_instance_is_refused_at_its_cause(
    schema: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(SchemaNotEnforceable, match="no finite value") as refused:
        without_endless(schema)
    assert refused.value.pointer == pointer


OPTIONAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a member": (
        {"type": "object", "properties": {"a~/b": ENDLESS, "c": {}}},
        {"type": "object", "properties": {"a~/b": False, "c": {}}},
    ),
    "an alternative": (
        {"anyOf": [ENDLESS, {"type": "null"}]},
        {"anyOf": [False, {"type": "null"}]},
    ),
    "items": (
        {"type": "array", "items": {"anyOf": [ENDLESS]}},
        {"type": "array", "items": False},
    ),
    "a member of a member": (
        {"properties": {"a": {"type": "object", "properties": {"b": ENDLESS}}}},
        {"properties": {"a": {"type": "object", "properties": {"b": False}}}},
    ),
    "a negated schema": ({"not": ENDLESS}, {"not": False}),
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_what_need_not_exist_and_can_not_is_forbidden(name: str) -> None:
    given, made = OPTIONAL[name]
    before = deepcopy(given)
    found = without_endless(given | {"$defs": {"loop": LOOP}})
    assert found == made | {"$defs": {"loop": False}}
    assert given == before


@pytest.mark.parametrize("name", ["notes", "ifx", "not", "if", "$defs", "definitions"])
def test_properties_named_like_keywords_are_checked_as_properties(name: str) -> None:
    schema = {"$defs": {"loop": LOOP}, "properties": {name: {"items": ENDLESS}}}
    assert without_endless(schema)["properties"] == {name: {"items": False}}


def test_long_reference_chains_are_checked_in_linear_time() -> None:
    """One pass per link would take hours for twenty thousand links."""
    links = 20_000
    chain = {f"a{at}": {"$ref": f"#/$defs/a{at + 1}"} for at in range(links)}
    finite = {"$defs": {**chain, f"a{links}": {}}, "$ref": "#/$defs/a0"}
    assert without_endless(finite) is finite
    endless = {"$defs": {**chain, f"a{links}": {"$ref": "#/$defs/a0"}}}
    assert set(without_endless(endless)["$defs"].values()) == {False}
    with pytest.raises(SchemaNotEnforceable) as refused:
        without_endless(endless | {"$ref": "#/$defs/a0"})
    assert refused.value.pointer == "/$defs/a0"
