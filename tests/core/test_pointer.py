"""The two notations in which errors name a place."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from toolgate_core.pointer import pointer_of, request_path


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ((), ""),
        (("model",), "model"),
        (("messages", 0, "content", 1, "text"), "messages[0].content[1].text"),
        (("tools", 2), "tools[2]"),
        ((0, 1), "[0][1]"),
        (("tools", 0, "a b"), 'tools[0]["a b"]'),
        (("tools", 0, ""), 'tools[0][""]'),
        (("tools", 0, "\ud800"), 'tools[0]["\\ud800"]'),
    ],
)
def test_places_in_requests_have_indexes_in_brackets(
    steps: tuple[str | int, ...], path: str
) -> None:
    assert request_path(steps) == path


@pytest.mark.parametrize(
    ("steps", "pointer"),
    [((), ""), (("due",), "/due"), (("a/b", "c~d", 0, ""), "/a~1b/c~0d/0/")],
)
def test_places_in_schemas_are_json_pointers(steps: tuple[str | int, ...], pointer: str) -> None:
    assert pointer_of(steps) == pointer


def test_pointers_resolve_in_json_schema_references() -> None:
    """A name with every escaped character."""
    name = "a/b~c"
    schema = {"$ref": f"#{pointer_of(('$defs', name))}", "$defs": {name: {"type": "string"}}}
    validator = jsonschema_rs.Draft202012Validator(json.loads(json.dumps(schema)))
    assert validator.is_valid("x")
    assert not validator.is_valid(1)
