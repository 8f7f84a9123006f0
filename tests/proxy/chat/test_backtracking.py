from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate_core.pointer import escape
from toolgate_proxy.chat.backtracking import value_starts

NESTED = '{"a": {"b/c": [1, "two", {"d": null}]}, "e" : -3.5e1 , "f": []}'


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("", ["[]}", '{"a"']),
        ("/a", ["null}]", '{"b/c"']),
        ("/a/b~1c", ["null}]", "[1, "]),
        ("/a/b~1c/1", ['two", {']),
        ("/e", ["-3.5e1 ,"]),
        ("/f", ["[]}"]),
        ("/a/missing", ["null}]", '{"b/c"']),
        ("/e/0", ["-3.5e1 ,"]),
    ],
)
def test_the_last_decision_comes_before_the_value_itself(pointer: str, expected: list[str]) -> None:
    starts = value_starts(NESTED, pointer)
    assert len(starts) == len(expected)
    assert all(
        NESTED.startswith(text, each.offset) for text, each in zip(expected, starts, strict=True)
    )


def test_the_last_of_several_members_with_one_name_counts() -> None:
    [start] = value_starts('{"a": 1, "a": 2}', "/a")
    assert '{"a": 1, "a": 2}'[start.offset :] == "2}"


@pytest.mark.parametrize("text", ["", "{", '{"a": ', '{"a" 1}', "[1,]", "nonsense"])
def test_text_that_is_not_json_has_no_starts_or_some_inside_it(text: str) -> None:
    assert all(0 <= each.offset <= len(text) for each in value_starts(text, "/a"))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(values, st.sampled_from([None, 1]), st.data())
def test_each_value_is_found(value: object, indent: int | None, data: st.DataObject) -> None:
    text, pointer, at = json.dumps(value, indent=indent), "", value
    while isinstance(at, dict | list) and at and data.draw(st.booleans()):
        step = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        pointer, at = f"{pointer}/{escape(str(step))}", at[step]
    start = value_starts(text, pointer)[-1]
    begin = start.offset - isinstance(at, str)
    found, _ = json.JSONDecoder().raw_decode(text, begin)
    assert (found, start.scalar) == (at, not isinstance(at, dict | list))
