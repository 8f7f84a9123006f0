"""Random walks in dialects of each shape, read by a reader that shares no code with them. The
segmenter finds the same as it does."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.support.dialects.model import PARAMETERS, DialectModel, calls_in, walk
from tests.support.dialects.text_reader import read_turn
from tests.support.effort import repeats
from toolgate_backend.enforcement.state import Phase
from toolgate_backend.tokens import masks
from toolgate_core.deltas import CallEnd, CallStart, ContentDelta, Event, Finish, ReasoningDelta

from .shapes import SHAPES, Shape


class Model(DialectModel):
    """The enforcement of a shape's dialect."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape.dialect, shape.tokens)
        self.shape = shape


@pytest.fixture(scope="module")
def model() -> Callable[[str], Model]:
    return lru_cache(lambda name: Model(SHAPES[name]))


def calls_of(model: Model, text: str) -> tuple[str, list[tuple[str, Any]]]:
    """Content and calls. Calls are validated."""
    at = text.find(model.shape.begins)
    if at < 0:
        return text, []
    found = read_turn(text[at:], model.dialect, PARAMETERS)
    assert found.end == len(text) - at
    for name, arguments in found.calls:
        jsonschema.validate(arguments, PARAMETERS[name])
    if model.shape.ids:
        assert all(re.fullmatch(model.shape.ids, each) for each in found.ids)
        assert len({*found.ids}) == len(found.calls)
    if model.shape.dialect.name.startswith("section"):  # the conversation has five earlier calls
        assert found.ids == [str(5 + number) for number in range(len(found.calls))]
    return text[:at], found.calls


def text_of(events: list[Event], kind: type[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def check_segmented(model: Model, tokens: list[int], dice: random.Random, required: bool) -> None:
    """The segmenter finds the content and the calls of the reader, however the tokens are split."""
    content, calls = calls_of(model, model.text(tokens))
    for splits in ([], [dice.randrange(len(tokens)) for _ in range(5)]):
        events = model.segment(tokens, splits, required=required)
        assert [(name, json.loads(text)) for name, text in calls_in(events)] == calls
        assert text_of(events, ContentDelta) == (content.rstrip() if calls else content)
        assert sum(isinstance(event, CallEnd) for event in events) == len(calls)
        assert events[-1] == Finish("tool_calls" if calls else "stop")


def check_cut(model: Model, tokens: list[int], dice: random.Random) -> None:
    """A call that is cut is not whole."""
    complete = calls_in(model.segment(tokens, []))
    events = model.segment(tokens[: dice.randrange(1, len(tokens))], [], "length")
    made = calls_in(events)
    ended = sum(isinstance(event, CallEnd) for event in events)
    assert made[:ended] == complete[:ended]
    for (name, text), (whole_name, whole_text) in zip(made, complete, strict=False):
        assert name == whole_name
        assert whole_text.startswith(text)


@pytest.mark.exhaustive
@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("name", SHAPES)
def test_random_walks_give_valid_calls(
    model: Callable[[str], Model], name: str, choice: str
) -> None:
    found, dice = model(name), random.Random(7)
    machine = found.automaton(choice=choice)
    ended = called = several = 0
    for seed in range(repeats(10, nightly=24)):
        machine.reset()
        tokens, _, whole = walk(machine, found, seed)
        if not whole:
            continue
        content, calls = calls_of(found, found.text(tokens))
        check_segmented(found, tokens, dice, choice == "required")
        if choice == "required":
            assert not content
            assert calls
            check_cut(found, tokens, dice)
        ended += 1
        called += bool(calls)
        several += len(calls) > 1
    assert ended > 5
    if choice == "required":
        assert called == ended
        assert several or not found.shape.dialect.calls.parallel  # type: ignore[union-attr]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SHAPES)
def test_one_call_at_most(model: Callable[[str], Model], name: str) -> None:
    found = model(name)
    machine = found.automaton(choice="required", max_calls=1)
    for seed in range(repeats(4, nightly=8)):
        machine.reset()
        tokens, _, whole = walk(machine, found, seed)
        if whole:
            assert len(calls_of(found, found.text(tokens))[1]) == 1


@pytest.mark.parametrize("name", SHAPES)
def test_no_call_without_permission(model: Callable[[str], Model], name: str) -> None:
    found = model(name)
    machine = found.automaton(choice="none")
    for token in found.vocabulary.encode("Hello "):
        assert machine.accept_tokens([token])
    begins = found.vocabulary.literal_tokens(found.vocabulary.form.trigger)
    if found.shape.dialect.calls and found.shape.dialect.calls.only_at_start:
        machine.reset()
    assert not all(machine.accept_tokens([token]) for token in begins)


@pytest.mark.exhaustive
@pytest.mark.parametrize("reasoning", ["open", "must"])
@pytest.mark.parametrize("name", SHAPES)
def test_reasoning_ends_at_its_budget_and_a_call_follows(
    model: Callable[[str], Model], name: str, reasoning: str
) -> None:
    found = model(name)
    thoughts = found.shape.dialect.reasoning
    assert thoughts is not None
    machine = found.automaton(choice="required", reasoning=reasoning, reasoning_budget=4)
    for seed in range(6):
        machine.reset()
        tokens, phases, whole = walk(machine, found, seed)
        text = found.text(tokens)
        if reasoning == "must":
            assert text.startswith(thoughts.begin)
        assert phases.count(Phase.THINKING.name) < 20
        if whole:
            _, end, rest = text.partition(thoughts.end)
            assert end
            assert rest.startswith(thoughts.after)
            assert calls_of(found, rest.removeprefix(thoughts.after))[1]
        if whole and reasoning == "open":
            events = found.segment(tokens, [], reasoning_open=True, required=True)
            before = text.partition(thoughts.end)[0]
            assert text_of(events, ReasoningDelta) == before.lstrip("\n").rstrip()
            assert calls_in(events)
            assert not text_of(events, ContentDelta)


@pytest.mark.exhaustive
@pytest.mark.parametrize("choice", ["none", "auto"])
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "bare"])
def test_content_of_a_format_or_calls(
    model: Callable[[str], Model], name: str, choice: str
) -> None:
    found = model(name)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    machine = found.automaton(schema, choice=choice)
    kinds = set()
    for seed in range(repeats(12, nightly=24)):
        machine.reset()
        tokens, _, whole = walk(machine, found, seed)
        if not whole:
            continue
        content, calls = calls_of(found, found.text(tokens))
        assert bool(content) != bool(calls)
        kinds.add(bool(calls))
        if content:
            jsonschema.validate(json.loads(content), schema)
    assert kinds == ({False} if choice == "none" else {False, True})


@pytest.mark.parametrize("name", SHAPES)
def test_rollback_restores_every_mask(model: Callable[[str], Model], name: str) -> None:
    found = model(name)
    machine = found.automaton(choice="required", max_calls=2)
    rng = random.Random(3)
    size = (found.vocabulary.size + 31) // 32
    rows: list[Any] = []
    for _ in range(60):
        if machine.is_terminated():
            break
        row = np.zeros(size, dtype=np.int32)
        machine.fill_bitmask(row)
        rows.append(row.copy())
        assert machine.accept_tokens([int(rng.choice(masks.unpack(row).tolist()))])
    while rows:
        machine.rollback(1)
        row = np.zeros(size, dtype=np.int32)
        machine.fill_bitmask(row)
        assert np.array_equal(row, rows.pop())


def test_calls_and_content_have_their_own_end_tokens(model: Callable[[str], Model]) -> None:
    found = model("named")
    [called] = found.vocabulary.call_ends
    assert found.vocabulary.token_bytes[called] == b"<|called|>"
    assert found.vocabulary.added_ends == {called}
    machine = found.automaton(choice="auto")
    assert not machine.validate_tokens([called])
    content_end = min(found.vocabulary.content_ends)
    assert machine.validate_tokens([content_end])
    call = found.vocabulary.encode("get_weather"), found.vocabulary.encode('{"city": "x"}')
    marks = found.vocabulary.marks.tokens
    assert machine.accept_tokens([marks["[CALL]"], *call[0], marks["[ARGS]"], *call[1]])
    assert not machine.validate_tokens([content_end])
    assert machine.accept_tokens([called])
    assert machine.is_terminated()


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
