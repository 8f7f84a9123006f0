"""`response_format`, and `additionalProperties` of its objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.admitted_requests import HELLO, admitted
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.api.chat_completions.request import parse_request


def test_each_type_of_response_format() -> None:
    assert admitted(response_format={"type": "text"}).content_format is None
    any_object = admitted(response_format={"type": "json_object"}).content_format
    assert any_object is not None
    assert (any_object.name, any_object.parameters) == ("", {"type": "object"})
    schema = {"type": "object", "title": "T", "properties": {"a": {"type": "integer"}}}
    given = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}
    held = admitted(response_format=given).content_format
    assert held is not None
    assert held.parameters == {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert held.hash != any_object.hash


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"type": "grammar"}, "response_format.type"),
        ({}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {}}, "response_format.json_schema.schema"),
        (
            {"type": "json_schema", "json_schema": {"schema": []}},
            "response_format.json_schema.schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
            "response_format.json_schema.name",
        ),
    ],
)
def test_invalid_response_formats_are_rejected(given: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        admitted(response_format=given)
    assert refusal.value.param == param


@pytest.mark.parametrize("form", ["tools", "functions", "response_format"])
def test_open_objects_allow_additional_properties(form: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    function = {"name": "look", "parameters": schema}
    given: dict[str, Any] = {
        "tools": [{"type": "function", "function": function}],
        "functions": [function],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    }
    for open_objects in (False, True):
        body = {"messages": HELLO, form: given[form]}
        request = parse_request(body, model="tiny", open_objects=open_objects)
        held = request.content_format if form == "response_format" else request.tools[0]
        assert held is not None
        assert held.parameters.get("additionalProperties", False) is open_objects
