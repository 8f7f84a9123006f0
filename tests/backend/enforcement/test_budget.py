"""Budgets under the most hostile model there is: what was promised fits, whatever it says."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests import tools
from tests.support.dialects.model import calls_in
from toolgate_backend.endpoint.sampling import check_budget
from toolgate_backend.endpoint.token_stream import TextDecoder
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.state import Phase
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.deltas import Event, Finish, ReasoningDelta
from toolgate_core.errors import BudgetTooSmall
from toolgate_core.segmenter import Segmenter
from toolgate_core.tools import Tool, parse_tools

from .test_automaton import SCHEMAS, MakeAutomaton


def run(
    machine: Automaton, vocabulary: Vocabulary, spec: Spec, seed: int
) -> tuple[list[Event], int]:
    """Random tokens among those allowed, up to the budget, as vLLM would end it; the events."""
    rng, decoder = random.Random(seed), TextDecoder(vocabulary)
    segmenter = Segmenter(
        vocabulary.dialect,
        vocabulary.marks,
        reasoning_open=spec.reasoning == "open",
        required=spec.choice == "required",
    )
    events: list[Event] = []
    assert spec.budget is not None
    for length in range(1, spec.budget + 1):
        row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
        machine.fill_bitmask(row)
        token = int(rng.choice(masks.unpack(row)))
        assert machine.accept_tokens([token])
        events += segmenter.feed([token], [decoder.decode(token)])
        if machine.is_terminated():
            return events + segmenter.finish("stop", token, decoder.rest()), length
    return events + segmenter.finish("length", None, decoder.rest()), spec.budget


def made(automaton: MakeAutomaton, offered: list[Any], **how: Any) -> tuple[Automaton, Spec]:
    return automaton(offered, **how), Spec(**how)


def least(vocabulary: Vocabulary, bodies: dict[str, int], spec: dict[str, Any]) -> int:
    """What `check_budget` says that the request takes at the least."""
    with pytest.raises(BudgetTooSmall) as refused:
        check_budget(
            Spec(**spec, keys=tuple(bodies), budget=1), bodies.__getitem__, vocabulary, asked_for=1
        )
    assert refused.value.param == "max_tokens"
    return refused.value.least


@pytest.fixture(scope="session")
def bodies(compile_tool: Callable[[Tool], Any]) -> dict[str, int]:
    return {tool.name: compile_tool(tool).least_tokens for tool in parse_tools(tools.ALL)}


@pytest.mark.parametrize("reasoning", ["open", "must", "may"])
def test_reasoning_leaves_room_for_the_call(
    automaton: MakeAutomaton, vocabulary: Vocabulary, bodies: dict[str, int], reasoning: str
) -> None:
    """A call may be cut, but it is begun in time."""
    how = {"choice": "required", "reasoning": reasoning}
    floor = least(vocabulary, bodies, how)
    for budget in range(floor, floor + 40, 3):
        machine, spec = made(automaton, tools.ALL, **how, budget=budget)
        events, _ = run(machine, vocabulary, spec, seed=budget)
        last = events[-1]
        assert isinstance(last, Finish)
        if last.reason == "length":
            assert last.call in ("cut", None)
        for called, text in calls_in(events)[: None if last.call is None else -1]:
            jsonschema.validate(json.loads(text), SCHEMAS[called])
        # Nothing that thinks to the very end: the call's mark has come.
        assert machine.state.phase in (Phase.TOOL_CALL, Phase.SELECT, Phase.END)


@pytest.mark.parametrize(
    ("budget", "call_tokens", "expected"),
    [
        *((400, None, 400 - 64), (100, None, 50)),
        *((400, 0, 400), (400, 150, 250), (400, 900, 200), (100, 90, 50)),
    ],
)
def test_reasoning_leaves_room_for_a_call_of_usual_length(
    automaton: MakeAutomaton,
    vocabulary: Vocabulary,
    bodies: dict[str, int],
    budget: int,
    call_tokens: int | None,
    expected: int,
) -> None:
    """At most half of the budget, and the shortest call in any case."""
    machine = automaton(
        [tools.WEATHER],
        choice="required",
        reasoning="open",
        budget=budget,
        call_tokens=call_tokens,
    )
    [mark] = [vocabulary.marks.tokens["</think>"]]
    [text] = vocabulary.encode("a")
    reasoned = 0
    while machine.accept_tokens([text]):
        reasoned += 1
    assert machine.accept_tokens([mark])
    name = tools.WEATHER["function"]["name"]
    shortest = vocabulary.call_tokens.shortest_call(name, bodies[name], first=True)
    left = budget - reasoned - vocabulary.call_tokens.reasoning_end_count
    by_schema = call_tokens is None and expected == 400 - 64
    wanted = budget - expected + (shortest if by_schema else 0)
    assert left == max(wanted, shortest)


@pytest.mark.parametrize("reasoning", ["open", "must"])
@pytest.mark.parametrize("budget", [0, 1, 7])
@pytest.mark.parametrize("choice", ["none", "auto", "required"])
def test_a_reasoning_budget_closes_the_reasoning(
    automaton: MakeAutomaton, vocabulary: Vocabulary, reasoning: str, budget: int, choice: str
) -> None:
    how = {"choice": choice, "reasoning": reasoning, "reasoning_budget": budget, "budget": 200}
    machine, spec = made(automaton, tools.ALL, **how)
    for seed in range(5):
        machine.reset()
        events, _ = run(machine, vocabulary, spec, seed)
        assert machine._course.reasoning_at(len(machine.tokens)) <= budget
        if budget == 0:
            assert not any(isinstance(event, ReasoningDelta) for event in events)


def test_auto_does_not_begin_a_call_that_exceeds_the_budget(
    automaton: MakeAutomaton, vocabulary: Vocabulary, bodies: dict[str, int]
) -> None:
    begin, body = vocabulary.marks.tokens["<tool_call>"], bodies["get_weather"]
    for budget, begins in ((body + 2, False), (body + 3, True)):
        machine = automaton([tools.WEATHER], choice="auto", budget=budget)
        row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
        machine.fill_bitmask(row)
        assert (begin in masks.unpack(row)) is begins
        assert machine.accept_tokens([begin]) is begins


def test_a_second_call_that_exceeds_the_budget_is_not_begun(
    automaton: MakeAutomaton, vocabulary: Vocabulary, bodies: dict[str, int]
) -> None:
    call = '\n{"name": "get_weather", "arguments": {"city": ""}}\n'
    marks = vocabulary.marks
    first = [marks.tokens["<tool_call>"], *vocabulary.encode(call), marks.tokens["</tool_call>"]]
    room = 1 + 1 + bodies["get_weather"] + 2  # separator, mark, body, mark and end
    for budget, begins in ((len(first) + room - 1, False), (len(first) + room, True)):
        machine = automaton([tools.WEATHER], choice="required", budget=budget)
        assert machine.accept_tokens(first)
        assert machine.accept_tokens(vocabulary.encode("\n")) is begins


def test_a_tool_whose_shortest_call_exceeds_the_budget_is_excluded(
    automaton: MakeAutomaton, vocabulary: Vocabulary, bodies: dict[str, int]
) -> None:
    small, large = sorted(bodies, key=bodies.__getitem__)[:: len(bodies) - 1]
    offered = [t for t in tools.ALL if t["function"]["name"] in (small, large)]
    machine = automaton(offered, choice="required", budget=bodies[small] + 3)
    machine.accept_tokens([vocabulary.marks.tokens["<tool_call>"]])
    assert not machine.accept_tokens(vocabulary.encode(f'\n{{"name": "{large}", '))
    machine.reset()
    machine.accept_tokens([vocabulary.marks.tokens["<tool_call>"]])
    assert machine.accept_tokens(vocabulary.encode(f'\n{{"name": "{small}", '))
