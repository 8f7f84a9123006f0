"""Tools of earlier requests, which are not read again."""

import copy
import math

import pytest

from toolgate_core.errors import InvalidTools
from toolgate_proxy.api.shared import known_tools
from toolgate_proxy.api.shared.known_tools import KNOWN, KnownTools

from .kit import each_api, function, names, parsed, refused

NEW = {"chat": ".function.parameters", "responses": ".parameters", "messages": ".input_schema"}


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    monkeypatch.setattr(KNOWN, "_read", {})


@each_api()
def test_a_known_tool_is_the_same_at_another_place(api):
    tools = [function(api, "look", description="Looks."), function(api, "other")]
    first = parsed(api, {"tools": tools})
    again = parsed(api, {"tools": copy.deepcopy(tools[::-1])})
    assert again.tools == first.tools[::-1]
    assert [tool.definition for tool in again.tools[::-1]] == [t.definition for t in first.tools]
    assert [tool.param for tool in again.tools] == [f"tools[{at}]{NEW[api]}" for at in (0, 1)]


@each_api()
def test_changes_of_a_request_do_not_reach_the_next_one(api):
    tools = [function(api, description="Looks.")]
    sent = copy.deepcopy(tools)
    parsed(api, {"tools": sent})
    for entry in (sent[0], sent[0].get("function", {})):
        if "description" in entry:
            entry["description"] = "Other."
    assert "Looks." in str(parsed(api, {"tools": tools}).tools[0].definition)


@each_api()
def test_tools_that_differ_in_anything_are_read_on_their_own(api):
    def schema(**properties):
        return {"type": "object", "properties": properties}

    one, two = {"type": "integer"}, {"type": "string"}
    member = "input_schema" if api == "messages" else "parameters"
    for first, second in (
        (schema(a=one, b=two), schema(b=two, a=one)),
        (schema(a={"enum": [1]}), schema(a={"enum": [True]})),
        (schema(a={"enum": [1, None]}), schema(a={"enum": [1, 1]})),
    ):
        given = [{"tools": [function(api, **{member: each})]} for each in (first, second)]
        hashes = [parsed(api, each).tools[0].definition for each in (*given, *given)]
        assert hashes[:2] == hashes[2:]
        assert str(hashes[0]) != str(hashes[1])


@each_api()
def test_numbers_that_are_not_finite_are_no_nulls(api):
    member = "input_schema" if api == "messages" else "parameters"
    for number, is_valid in ((None, True), (math.nan, False), (None, True)):
        schema = {"type": "object", "properties": {"a": {"enum": [number]}}}
        body = {"tools": [function(api, **{member: schema})]}
        if is_valid:
            assert names(parsed(api, body)) == ["look"]
        else:
            assert isinstance(refused(api, body), InvalidTools)


@each_api()
def test_an_invalid_tool_is_refused_at_each_place(api):
    member = "input_schema" if api == "messages" else "parameters"
    wrong = function(api, "wrong", **{member: {"type": "string"}})
    for tools in ([wrong], [function(api), wrong]):
        at = len(tools) - 1
        assert (refused(api, {"tools": tools}).param or "").startswith(f"tools[{at}]")


def test_their_number_is_bounded(monkeypatch):
    monkeypatch.setattr(known_tools, "MAX_LENGTH", 100)
    monkeypatch.setattr(known_tools, "MAX_BYTES", 300)
    known, read = KnownTools(), []
    for at in [*range(50), 49]:
        assert known.find(
            "kind", {"name": "x" * 60, "at": at}, lambda entry: read.append(1) or entry
        )
    assert len(read) == 50
    assert sum(map(len, known._read["kind"])) <= 300
    assert known.find("kind", "x" * 101, lambda entry: entry) is None
