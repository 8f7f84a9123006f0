"""Random walks in dialects of each shape: the segmenter finds what independent readers find."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest

from tests.support.dialects.model import walk
from tests.support.dialects.tool_calls import calls_in
from tests.support.effort import repeats
from toolgate_core.deltas import CallEnd, CallStart, ContentDelta, Event, Finish, ReasoningDelta

from .shapes import SHAPES
from .test_shapes import Model, calls_of


@pytest.fixture(scope="module")
def model() -> Callable[[str], Model]:
    return lru_cache(lambda name: Model(SHAPES[name]))


def text_of(events: list[Event], kind: type[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


@pytest.mark.exhaustive
@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_segmenter_finds_the_calls_of_the_reader(
    model: Callable[[str], Model], name: str, choice: str
) -> None:
    found, dice = model(name), random.Random(7)
    machine = found.automaton(choice=choice)
    seen = 0
    for seed in range(repeats(6, nightly=24)):
        machine.reset()
        tokens, _, whole = walk(machine, found, seed)
        if not whole:
            continue
        content, calls = calls_of(found, found.text(tokens))
        for splits in ([], [dice.randrange(len(tokens)) for _ in range(5)]):
            events = found.segment(tokens, splits, required=choice == "required")
            made = [(called, json.loads(text)) for called, text in calls_in(events)]
            assert made == calls
            written = text_of(events, ContentDelta)
            assert written == (content.rstrip() if calls else content)
            assert sum(isinstance(event, CallEnd) for event in events) == len(calls)
            assert events[-1] == Finish("tool_calls" if calls else "stop")
        seen += bool(calls)
    assert seen or choice == "auto"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SHAPES)
def test_reasoning_is_apart(model: Callable[[str], Model], name: str) -> None:
    found = model(name)
    machine = found.automaton(choice="required", reasoning="open", reasoning_budget=5)
    for seed in range(6):
        machine.reset()
        tokens, _, whole = walk(machine, found, seed)
        if not whole:
            continue
        events = found.segment(tokens, [], reasoning_open=True, required=True)
        thoughts = found.shape.dialect.reasoning
        assert thoughts is not None
        before, end, rest = found.text(tokens).partition(thoughts.end)
        assert end
        assert text_of(events, ReasoningDelta) == before.lstrip("\n").rstrip()
        assert calls_in(events)
        assert not text_of(events, ContentDelta)
        assert rest


@pytest.mark.parametrize("name", SHAPES)
def test_a_cut_call_is_not_whole(model: Callable[[str], Model], name: str) -> None:
    found, dice = model(name), random.Random(3)
    machine = found.automaton(choice="required")
    for seed in range(8):
        machine.reset()
        tokens, _, whole = walk(machine, found, seed)
        if not whole:
            continue
        complete = calls_in(found.segment(tokens, []))
        cut = tokens[: dice.randrange(1, len(tokens))]
        events = found.segment(cut, [], "length")
        made = calls_in(events)
        ended = sum(isinstance(event, CallEnd) for event in events)
        assert made[:ended] == complete[:ended]
        for (name_, text), (whole_name, whole_text) in zip(made, complete, strict=False):
            assert name_ == whole_name
            assert whole_text.startswith(text)


@pytest.mark.parametrize(
    ("name", "form"), [("section", r"functions\.\w+:5"), ("array_with_ids", r"[A-Za-z0-9]{9}")]
)
def test_ids_in_the_text_are_the_ids_of_the_calls(
    model: Callable[[str], Model], name: str, form: str
) -> None:
    found = model(name)
    machine = found.automaton(choice="required", max_calls=1)
    whole, seed, tokens = False, 0, list[int]()
    while not whole:
        machine.reset()
        tokens, _, whole = walk(machine, found, seed)
        seed += 1
    [start] = [each for each in found.segment(tokens, []) if isinstance(each, CallStart)]
    assert start.id is not None
    assert re.fullmatch(form, start.id)
    assert start.id.rpartition(":")[2] in found.text(tokens)
