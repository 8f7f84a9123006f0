"""The input of custom tools as plain text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate_core.custom_tools import CustomCalls, InputText
from toolgate_core.deltas import ArgumentsDelta, CallEnd, CallStart, Finish, InputDelta


def read(text: str, cuts: list[int]) -> tuple[str, str]:
    """The text before the call's end, and the rest."""
    reader, parts, at = InputText(), [], 0
    for cut in [*sorted(cut % (len(text) + 1) for cut in cuts), len(text)]:
        parts.append(reader.feed(text[at:cut]))
        at = cut
    return "".join(parts), reader.last()


@given(st.text(), st.lists(st.integers(0, 10_000)), st.booleans())
def test_any_input_is_read_at_every_split(text: str, cuts: list[int], ascii_only: bool) -> None:
    before, last = read(json.dumps({"input": text}, ensure_ascii=ascii_only), cuts)
    assert before + last == text
    assert last == text[-1:]


@pytest.mark.parametrize("written", ['{"input": "a\\/b"}', '{ "input":"a\\u002fb" }'])
def test_every_escape_of_json_is_read(written: str) -> None:
    assert "".join(read(written, [1, 9, 12])) == "a/b"


@pytest.mark.parametrize("half", ["\\ud83d", "\\ud83dx", "\\ude00", "\\ud83d\\ud83d"])
def test_half_of_a_surrogate_pair_becomes_a_replacement_character(half: str) -> None:
    text = "".join(read(f'{{"input": "a{half}"}}', [14]))
    assert "\N{REPLACEMENT CHARACTER}" in text
    text.encode()


def test_a_cut_input_lacks_its_last_character() -> None:
    calls = CustomCalls(["shell"])
    events = calls.converted(
        [CallStart(0, "shell"), ArgumentsDelta(0, '{"input": "ls -l'), Finish("length", call="cut")]
    )
    assert events == [
        CallStart(0, "shell", custom=True),
        InputDelta(0, "ls -"),
        Finish("length", call="cut"),
    ]


def test_calls_of_functions_are_unchanged() -> None:
    events = [CallStart(0, "look"), ArgumentsDelta(0, '{"input": "a"}'), CallEnd(0)]
    assert CustomCalls(["shell"]).converted([*events]) == events
