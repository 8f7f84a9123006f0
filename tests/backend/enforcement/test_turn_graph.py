"""Sequences of equal requests share a graph, and it goes with its grammars."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests import tools
from toolgate_backend.enforcement import turn_graph, turn_graphs
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.graph.node_maker import NodeMaker
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.tools import Tool, parse_tools

MakeAutomaton = Callable[..., Automaton]
CALL = '\n{"name": "note", "arguments": {"text": "Hello, world", "count": 12}}\n'
NOTE = tools.tool("note", {"text": {"type": "string"}, "count": {"type": "integer"}})


def tokens_of(vocabulary: Vocabulary) -> list[int]:
    marks = vocabulary.marks.tokens
    call = [marks["<tool_call>"], *vocabulary.encode(CALL), marks["</tool_call>"]]
    return [*vocabulary.encode("Let me see."), *call, min(vocabulary.call_ends)]


def test_known_tokens_are_not_looked_up_in_the_rules(
    compile_tool: Callable[[Tool], MeasuredGrammar],
    model_data: ModelData,
    vocabulary: Vocabulary,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second sequence asks neither the rules nor an engine, whatever its own text is."""
    grammars = [compile_tool(tool) for tool in parse_tools([NOTE])]
    spec = Spec("auto", budget=10_000, reasoning="closed")

    def run(tokens: list[int]) -> None:
        machine = Automaton(model_data, spec, grammars)
        for token in tokens:
            assert machine.next_row().words[token // 32] >> (token % 32) & 1
            assert machine.accept(token)
        assert machine.is_terminated()

    run(tokens_of(vocabulary))
    monkeypatch.setattr(turn_graph.Turn, "step", None)
    monkeypatch.setattr(turn_graph.Turn, "mask", None)
    monkeypatch.setattr(NodeMaker, "_matcher", None)
    run(tokens_of(vocabulary))


@pytest.mark.parametrize("limits", [{"budget": 30}, {"min_tokens": 3}, {"reasoning_budget": 1}])
def test_limits_decide_beside_sequences_without_them(
    automaton: MakeAutomaton, vocabulary: Vocabulary, limits: dict[str, Any]
) -> None:
    """A shared graph has no decision of another sequence's budget, and none is missed."""
    how: dict[str, Any] = {"choice": "required", "reasoning": "open"}
    text = vocabulary.encode("One two three four five six seven eight nine ten, and so on for ever")
    alone = [automaton([NOTE], **how, **limits) for _ in range(2)]
    free = automaton([NOTE], **how)
    ended = None
    for at, token in enumerate(text):
        assert free.accept(token)
        found = {machine.accept(token) for machine in alone}
        assert len(found) == 1
        if found == {False}:
            ended = at
            break
    expected = {"budget": True, "min_tokens": False, "reasoning_budget": True}
    assert (ended is not None) == expected[next(iter(limits))]
    assert free.accept(text[0])


def test_graphs_go_with_their_grammars_before_python_looks_for_cycles(
    compile_tool: Callable[[Tool], MeasuredGrammar],
    model_data: ModelData,
    vocabulary: Vocabulary,
) -> None:
    """In a server it looks for old ones so rarely that thousands of grammars would be kept."""
    gc.collect()
    gc.disable()
    try:
        grammar = compile_tool(*parse_tools([NOTE]))
        machine = Automaton(model_data, Spec("auto", budget=999, reasoning="closed"), [grammar])
        for token in tokens_of(vocabulary):
            machine.next_row()
            assert machine.accept(token)
        root = model_data.graphs.graph_of(grammar).root
        kept = [weakref.ref(each) for each in (machine._graph, grammar, grammar.compiled)]
        assert all(each() is not None for each in kept)
        model_data.turns.forget(grammar)
        del machine, grammar
        assert not any(each() for each in kept)
        for _ in range(9):
            model_data.graphs.memory.tidy()
        assert not root.next
        assert len(gc.get_referrers(root)) == 0
    finally:
        gc.enable()


def test_graphs_are_bounded(
    automaton: MakeAutomaton, model_data: ModelData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_graphs, "MAX_TURNS", 3)
    for number in range(6):
        automaton([NOTE], choice="auto", max_calls=number + 1)
    assert len(model_data.turns) == 3


def test_a_turn_begins_anew_at_its_bound(
    automaton: MakeAutomaton, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_graph, "MAX_NODES", 4)
    for _ in range(3):
        machine = automaton([NOTE], choice="auto", reasoning="closed", max_calls=7)
        for token in tokens_of(vocabulary):
            assert machine.accept(token)
        assert machine.is_terminated()


def test_forced_text_has_a_mask_wherever_it_was_first_reached(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    """llguidance has none for text that is spelled like a special token. A draft, or a request that
    continues another one, passes it without asking for its mask."""
    value = {"type": "string", "enum": ["x<think>y", "qqq"], "maxLength": 60}
    machine = automaton([tools.tool("note", {"a": value}, required=["a"])], choice="required")
    begin = vocabulary.encode('\n{"name": "note", "arguments": {"a": "x')
    assert machine.accept_tokens([vocabulary.marks.tokens["<tool_call>"], *begin])
    draft = [vocabulary.encode(char)[0] for char in "<think>y"]
    assert machine.validate_tokens(draft) == draft
    for token in draft:  # one of the ways to spell the text, not always that of the mask
        assert machine.next_row().words.any()
        assert machine.accept(token)


@pytest.mark.parametrize("reasoning", ["open", "closed"])
def test_numbers_that_are_no_tokens_are_refused(
    automaton: MakeAutomaton, vocabulary: Vocabulary, reasoning: str
) -> None:
    """vLLM pads drafts with -1."""
    machine = automaton([NOTE], choice="auto", reasoning=reasoning)
    assert machine.accept_tokens(vocabulary.encode("Let me see"))
    for token in (-1, -2, vocabulary.size, 10**7):
        assert not machine.accept(token)
    assert machine.validate_tokens([-1]) == []


def test_steps_near_a_budget_make_no_nodes_for_each_request(
    compile_tool: Callable[[Tool], MeasuredGrammar],
    vocabulary: Vocabulary,
    model_data: ModelData,
) -> None:
    grammars = [compile_tool(tool) for tool in parse_tools([NOTE])]
    tokens = tokens_of(vocabulary)[: len(vocabulary.encode("Let me see.")) + 6]
    sizes = []
    for _ in range(4):
        machine = Automaton(model_data, Spec("auto", budget=60), grammars)
        assert machine.accept_tokens(tokens)
        sizes.append(model_data.graphs.memory.bytes)
    assert sizes[-1] == sizes[1]
