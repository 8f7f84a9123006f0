"""Bodies whose tools are known by their text are read as all others are."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from toolgate_core.errors import InvalidRequest, RequestTooLarge, ToolgateError
from toolgate_proxy import json_values
from toolgate_proxy.server.body_guard import MAX_ENTRIES, check_bounds
from toolgate_proxy.server.transport import body
from toolgate_proxy.server.transport.known_tools import TEXTS, KnownTools
from toolgate_proxy.shared_tools import SharedTools, as_own

ARRAYS = (
    "[]",
    "[1]",
    '["a"]',
    '["é]"]',
    '[{"b": [2]}]',
    "[" + "9" * 30 + "]",
    '[" \\"tools\\":[3]"]',
)
NAMED = [f"{name}{array}" for name in ('"tools":', '"tools" : ') for array in ARRAYS]
OTHERS = ('"a": 1', '"b": [1]', '"é": "]"', '"c": {"tools": [1]}', '"d": "\\"tools\\": [1]"')
DAMAGES = ("[", "]", ",", '"', "}", "{", '"tools":', "\\", "NaN", "\ud800")
members = st.sampled_from([*NAMED, *OTHERS])
bodies = st.lists(members, max_size=6).map(lambda each: "{" + ", ".join(each) + "}")


@st.composite
def damaged(draw: st.DrawFn) -> str:
    text, at = draw(bodies), draw(st.integers(0, 60))
    return text[:at] + draw(st.sampled_from(["", *DAMAGES])) + text[at:]


def read(known: KnownTools, content: bytes, owner: str = "me") -> dict[str, Any] | None:
    return known.values(content, owner, partial(body.from_json, size=len(content)), check_bounds)


@settings(max_examples=repeats(200, nightly=3000))
@given(st.lists(bodies | damaged(), min_size=2, max_size=6))
def test_bodies_are_read_as_without_known_tools(texts: list[str]) -> None:
    known = KnownTools(min_size=0)
    for text in (*texts, *texts):
        content = text.encode("utf-8", "surrogatepass")
        found = read(known, content)
        if found is not None:
            assert found == body.from_json(content)
            assert list(found) == list(body.from_json(content))


TOOLS = [{"name": "é" * 40, "n": at} for at in range(2_000)]
TEXT = json.dumps(TOOLS, ensure_ascii=False)


@pytest.mark.parametrize(
    "form",
    [
        '{"model": "m", "tools": %s}',
        '{"tools":%s, "messages": [{"content": "[]"}], "include": ["x"]}',
        '{"input": [{"tools": [1]}, "tools"], "tools" :\n%s , "a": 1}',
    ],
)
def test_the_tools_of_a_later_body_are_the_same_objects(form: str) -> None:
    known = KnownTools()
    first, later = (read(known, (form % TEXT).encode()) for _ in range(2))
    other = read(known, f'{{"b": "é", "tools": {TEXT}}}'.encode())
    assert first is not None
    assert later is not None
    assert other is not None
    assert isinstance(first["tools"], SharedTools)
    assert first["tools"] is later["tools"] is other["tools"]
    assert later == json.loads(form % TEXT)


def test_each_sender_has_tools_of_its_own() -> None:
    known, content = KnownTools(), f'{{"tools": {TEXT}}}'.encode()
    mine, others, again = (read(known, content, owner) for owner in ("me", "other", "me"))
    assert mine is not None
    assert others is not None
    assert again is not None
    assert mine == others
    assert mine["tools"] is again["tools"] is not others["tools"]


@pytest.mark.parametrize("wrapped", [False, True], ids=["own", "in a namespace"])
@pytest.mark.parametrize("member", ["authorization", "headers"])
def test_tools_with_credentials_are_not_kept(member: str, wrapped: bool) -> None:
    known = KnownTools()
    server = {"type": "mcp", "server_label": "shop", member: "s3cret"}
    tools = [*TOOLS, {"type": "namespace", "tools": [server]} if wrapped else server]
    content = json.dumps({"tools": tools}).encode()
    first, later = read(known, content), read(known, content)
    assert first == later == {"tools": tools}
    assert first is not None
    assert later is not None
    assert first["tools"] is not later["tools"]


def test_a_text_that_is_not_an_array_is_not_known() -> None:
    known, forged = KnownTools(), f'{TEXT}, "include": ["x"]'
    assert read(known, f'{{"tools": {forged}, "include": ["x"]}}'.encode()) is not None
    found = read(known, f'{{"tools": {forged}}}'.encode())
    assert found is not None
    assert found["include"] == ["x"]


def test_the_last_of_several_arrays_counts() -> None:
    known = KnownTools()
    read(known, f'{{"tools": {TEXT}}}'.encode())
    assert read(known, f'{{"tools": {TEXT}, "tools": [1]}}'.encode()) is None
    found = read(known, f'{{"tools": [1], "tools": {TEXT}}}'.encode())
    assert found == {"tools": TOOLS}


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        ('"a": [%s1]' % ("1," * json_values.MAX_VALUES), RequestTooLarge),
        ('"a": [%s1]' % ("1," * MAX_ENTRIES), InvalidRequest),
        (f'"a": {"[" * 300}1{"]" * 300}', InvalidRequest),
        ('"a": ', InvalidRequest),
    ],
)
async def test_errors_are_those_of_a_body_with_other_tools(
    rest: str, error: type[ToolgateError]
) -> None:
    scope = {"type": "http", "headers": []}

    async def refused(tools: str) -> ToolgateError:
        sent = body.RequestBody(f'{{"tools": {tools}, {rest}}}'.encode())
        with pytest.raises(error) as raised:
            await sent.parsed(scope, check_bounds, owner="me")
        return raised.value

    first = body.RequestBody(f'{{"tools": {TEXT}}}'.encode())
    await first.parsed(scope, check_bounds, owner="me")
    known, unknown = await refused(TEXT), await refused(TEXT.replace("{", "{ "))
    assert (known.message, known.param) == (unknown.message, unknown.param)


def test_tools_are_checked_when_they_are_read_first() -> None:
    deep = f'{{"tools": [{TEXT}, {"[" * 300}{"]" * 300}]}}'.encode()
    assert read(KnownTools(), deep) is None


def test_those_not_seen_for_the_longest_time_are_dropped() -> None:
    known = KnownTools(max_cost=3 * (3 * len(TEXT.encode()) + 100 * TEXT.count("{") * 3))

    def tools(at: int) -> Any:
        found = read(known, f'{{"tools": {TEXT.replace("n", str(at))}}}'.encode())
        return found and found["tools"]

    first, second = tools(1), tools(2)
    assert tools(1) is first
    for at in range(3, 5):
        tools(at)
        assert tools(1) is first
    assert tools(2) is not second
    assert known._cost <= known._max_cost


@pytest.mark.parametrize("wide", ["😀", "\\ud83d\\ude00", "☃", "\\u2603", ""])
def test_the_memory_of_wide_characters_counts(wide: str) -> None:
    content = f'{{"tools": ["{"x" * 100_000}{wide}"]}}'.encode()
    width = sys.getsizeof(json.loads(content)["tools"][0]) // 100_000
    for more, is_kept in ((0, False), (1_000, True)):
        known = KnownTools(max_cost=100_000 * (width + 1 + TEXTS) + more)
        first, later = (read(known, content) for _ in range(2))
        assert first is not None
        assert later is not None
        assert first == later == json.loads(content)
        assert (first["tools"] is later["tools"]) is is_kept


def test_an_array_of_the_history_does_not_hide_the_tools() -> None:
    """Neither do short ones before it."""
    tools = [{"name": f"tool {at}", "description": "x" * 100} for at in range(1_000)]
    found = {"type": "tool_search_output", "tools": tools[:600]}
    body = {"input": [{"tools": [{"name": "short"}]}], "tools": tools, "later": [found]}
    known = KnownTools()
    first, second = (read(known, json.dumps(body).encode()) for _ in range(2))
    assert first == second == body
    assert first is not None
    assert second is not None
    assert first["tools"] is second["tools"]


def test_other_code_gets_tools_of_its_own() -> None:
    shared = SharedTools([{"name": "a"}])
    own = as_own({"tools": shared, "model": "m"})
    assert own == {"tools": [{"name": "a"}], "model": "m"}
    own["tools"][0]["name"] = "b"
    assert shared[0]["name"] == "a"
