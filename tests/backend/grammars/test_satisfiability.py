from __future__ import annotations

from typing import Any

import pytest

from toolgate_backend.grammars.satisfiability import find_unsatisfiable

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


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},  # a string satisfies it
        {"type": ["object", "null"], "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"$defs": {"node": NODE}, "$ref": "#/$defs/node"},
        {"$defs": {"loop": LOOP}},
        {"$defs": {"loop": LOOP}, "not": {"$ref": "#/$defs/loop"}},
        {"$defs": {"loop": LOOP}, "if": {"properties": {"a": {"$ref": "#/$defs/loop"}}}},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 0},
        {"$ref": "https://example.com"},
        {"type": "object", "required": ["undeclared"]},
    ],
)
def test_schemas_with_a_finite_instance_are_satisfiable(schema: dict[str, Any]) -> None:
    assert find_unsatisfiable(schema) is None


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#"}, ""),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, ""),
        (
            {"$defs": {"loop": LOOP}, "properties": {"a~/b": {"$ref": "#/$defs/loop"}}},
            "/properties/a~0~1b",
        ),
        ({"anyOf": [{"$ref": "#"}, {"allOf": [{"type": "string"}, {"$ref": "#"}]}]}, ""),
    ],
)
def test_schemas_without_a_finite_instance_are_unsatisfiable(
    schema: dict[str, Any], pointer: str
) -> None:
    assert find_unsatisfiable(schema) == pointer


@pytest.mark.parametrize("name", ["notes", "ifx", "not", "if", "$defs", "definitions"])
def test_properties_named_like_keywords_are_checked_as_properties(name: str) -> None:
    schema = {"$defs": {"loop": LOOP}, "properties": {name: {"$ref": "#/$defs/loop"}}}
    assert find_unsatisfiable(schema) == f"/properties/{name}"
    within = {"$defs": {"loop": LOOP}, "properties": {name: {"items": {"$ref": "#/$defs/loop"}}}}
    assert find_unsatisfiable(within) == f"/properties/{name}/items"


def test_long_reference_chains_are_checked_in_linear_time() -> None:
    """One pass per link would take hours for twenty thousand links."""
    links = 20_000
    chain = {f"a{at}": {"$ref": f"#/$defs/a{at + 1}"} for at in range(links)}
    assert find_unsatisfiable({"$defs": {**chain, f"a{links}": {}}, "$ref": "#/$defs/a0"}) is None
    endless = {"$defs": {**chain, f"a{links}": {"$ref": "#/$defs/a0"}}, "$ref": "#/$defs/a0"}
    assert find_unsatisfiable(endless) == ""
