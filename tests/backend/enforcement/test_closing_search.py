"""How often the end of a call is searched near its budget. Each search takes a millisecond in a
step that blocks all sequences."""

from __future__ import annotations

from typing import Any

import pytest

from tests import tools
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.tokens.vocabulary import Vocabulary

from .test_automaton import MakeAutomaton

NUMBERS = {name: {"type": "integer"} for name in "abcdefghijkl"}


def test_completion_of_many_tools_is_not_searched_per_tool(
    automaton: MakeAutomaton, model_data: ModelData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each search takes a millisecond in a step that blocks all sequences."""
    offered = [tools.tool(f"get_{at}", {"x": {"type": "string"}}) for at in range(30)]
    searched: list[Any] = []
    path = model_data.completion.path

    def counted(matcher: Any, *scan: Any) -> Any:
        searched.append(matcher)
        return path(matcher, *scan)

    how = {"choice": "required", "close_at_budget": True}
    machine = automaton(offered, **how, budget=2_000)
    tight = automaton(offered, **how, budget=40)
    monkeypatch.setattr(model_data.completion, "path", counted)
    call_begin = model_data.marks.tokens["<tool_call>"]
    for token in [call_begin, *model_data.completion.token_index.prefixes_of(b"\n")]:
        assert machine.accept_tokens([token])
    assert searched == []
    assert tight.accept_tokens([call_begin])
    assert len(searched) == 1
    assert tight.state.closing


def test_the_end_of_a_call_is_not_searched_again_while_a_string_goes_on(
    automaton: MakeAutomaton,
    vocabulary: Vocabulary,
    model_data: ModelData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The completion that ends the string is the same after each of its tokens."""
    machine = in_a_string(automaton, vocabulary)
    steps = count_search_steps(model_data, monkeypatch)
    checked, searched = set[int](), 0
    [word] = vocabulary.encode(" the")
    while not machine.state.closing:
        steps.clear()
        assert machine.accept_tokens([word])
        searched += bool(steps)
        checked.add(machine._course.plan.at)
    assert len(checked) > 10
    assert searched <= 3


def test_a_call_that_follows_its_completion_is_not_searched_again(
    automaton: MakeAutomaton,
    vocabulary: Vocabulary,
    model_data: ModelData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each token leaves the rest of the completion."""
    machine = in_a_string(automaton, vocabulary)
    [word] = vocabulary.encode(" the")
    # Up to shortly before the next check, which falls into the completion.
    while machine._course.plan.at - len(machine.call_tokens) > 40:
        assert machine.accept_tokens([word])
    steps = count_search_steps(model_data, monkeypatch)
    followed = machine._course.plan.completion[:-1]
    checks = set[int]()
    for token in followed:
        assert machine.accept_tokens([token])
        checks.add(machine._course.plan.at)
    assert len(followed) > len(NUMBERS)
    assert len(checks) > 1
    assert steps == []


def in_a_string(automaton: MakeAutomaton, vocabulary: Vocabulary) -> Automaton:
    """A sequence inside a string of a call, with the members NUMBERS to come."""
    tool = tools.tool("note", {"text": {"type": "string"}} | NUMBERS)
    begin = vocabulary.encode('\n{"name": "note", "arguments": {"text": "')
    machine = automaton([tool], choice="required", close_at_budget=True, budget=500)
    assert machine.accept_tokens([vocabulary.marks.tokens["<tool_call>"], *begin])
    return machine


def count_search_steps(model_data: ModelData, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that gets an entry for each step of a search."""
    steps: list[Any] = []
    step = model_data.completion._next

    def counted(*position: Any) -> Any:
        steps.append(position)
        return step(*position)

    monkeypatch.setattr(model_data.completion, "_next", counted)
    return steps
