"""Many tools at once, and graphs that equal requests share."""

import gc
import random
import weakref

import numpy as np
import pytest

from tests import tools
from toolgate_backend.enforcement import turn_graph
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.grammars.graph.node_maker import Scouts
from toolgate_backend.tokens import masks
from toolgate_core.tools import parse_tools

# --- candidates ---
NAMES = ("get", "get_weather", "get_weather_now", "set", "s", "settings")
"""Beginnings of each other."""


def offered():
    schemas = (
        {"city": {"type": "string"}},
        {"city": {"type": "string", "maxLength": 4}},  # held by the other engine
        {},
    )
    return [
        tools.tool(name, schemas[at % len(schemas)], required=[]) for at, name in enumerate(NAMES)
    ]


@pytest.fixture(scope="module")
def grammars(compile_tool):
    return [compile_tool(tool) for tool in parse_tools(offered())]


def by_matchers(grammars, tokens, vocabulary):
    """The OR of the masks of all matchers that take `tokens`, less the special tokens."""
    found = set()
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    for grammar in grammars:
        matcher = grammar.matcher()
        if all(matcher.accept(token) for token in tokens) and not matcher.finished:
            matcher.fill(row)
            found |= set(masks.unpack(row).tolist())
    return found - vocabulary.special


def hold(now, grammars, tokens, vocabulary):
    """`now` is what the matchers' masks say. Where text is forced, llguidance's mask has one way to
    spell it only; its matcher takes all ways, and so do we."""
    expected = by_matchers(grammars, tokens, vocabulary)
    assert expected <= now
    for token in now - expected:
        matchers = [grammar.matcher() for grammar in grammars]
        assert any(all(map(matcher.accept, [*tokens, token])) for matcher in matchers)


def begun(model_data, grammars):
    """The candidates after the mark that begins a call."""
    trigger = model_data.texts.trigger
    assert trigger is not None
    return model_data.first_calls(grammars, "").begun(trigger.text)


def after(candidates, tokens):
    """The candidates after tokens that some of them accept."""
    for token in tokens:
        following = candidates.after(token)
        assert following is not None
        candidates = following
    return candidates


def allowed(candidates, vocabulary):
    return set(masks.unpack(candidates.mask()).tolist())


@pytest.mark.parametrize("seed", range(3))
def test_the_mask_equals_the_union_of_the_matchers_at_every_step(
    model_data, grammars, vocabulary, seed
):
    rng = random.Random(seed)
    candidates, tokens = begun(model_data, grammars), list[int]()
    while not candidates.finished and len(tokens) < 40:
        now = allowed(candidates, vocabulary)
        hold(now, grammars, tokens, vocabulary)
        token = rng.choice(sorted(now))
        refused = rng.randrange(vocabulary.size)
        if refused not in now:
            assert candidates.after(refused) is None
        candidates = after(candidates, [token])
        tokens.append(token)
    assert len(tokens) > 10


@pytest.mark.parametrize("seed", range(2))
def test_earlier_candidates_have_their_masks_still(model_data, grammars, vocabulary, seed):
    rng = random.Random(seed)
    earlier, tokens = [begun(model_data, grammars)], list[int]()
    for _ in range(120):
        if earlier[-1].finished or (tokens and rng.random() < 0.3):
            back = rng.randint(1, len(tokens))
            del tokens[-back:], earlier[-back:]
        now = allowed(earlier[-1], vocabulary)
        hold(now, grammars, tokens, vocabulary)
        tokens.append(rng.choice(sorted(now)))
        earlier.append(after(earlier[-1], tokens[-1:]))


def test_forced_text_is_the_common_prefix_of_all_candidates(model_data, grammars, vocabulary):
    candidates = begun(model_data, grammars[:3])
    assert candidates.grammars == grammars[:3]
    assert candidates.forced() == b'\n{"name": "get'
    candidates = after(candidates, vocabulary.encode('\n{"name": "get_weather'))
    assert candidates.grammars == grammars[1:3]
    assert candidates.forced() == b""
    candidates = after(candidates, vocabulary.encode('"'))
    assert candidates.grammars == grammars[1:2]
    assert b'"arguments": {' in candidates.forced()


def test_prepared_prefixes_are_not_recomputed_during_a_step(model_data, grammars):
    offered = grammars[1:5]  # a set that no other test has
    model_data.prepare_prefixes(offered)
    model_data.prepare_prefixes([])
    known = model_data.first_calls(offered, "").prefixes.position_after
    made = known.cache_info().misses
    candidates = begun(model_data, offered)
    assert candidates.forced() == b'\n{"name": "'
    assert candidates.grammars == offered
    assert known.cache_info().misses == made > 0


def test_forced_special_token_text_is_spelt_in_ordinary_tokens(
    model_data, compile_tool, vocabulary
):
    """llguidance's mask allows only the special token where its text is forced."""
    short = {"type": "string", "maxLength": 5}
    tool = tools.tool("note", {"a": short, "<think>": short}, required=["a"])
    candidates = begun(model_data, [compile_tool(each) for each in parse_tools([tool])])
    candidates = after(
        candidates, vocabulary.encode('\n{"name": "note", "arguments": {"a": "x", "')
    )
    rest = b'<think>": "'
    while rest:
        now = allowed(candidates, vocabulary)
        assert not now & vocabulary.special
        fitting = [each for each in now if rest.startswith(vocabulary.token_bytes[each])]
        token = max(fitting, key=lambda each: len(vocabulary.token_bytes[each]))
        candidates = after(candidates, [token])
        rest = rest.removeprefix(vocabulary.token_bytes[token])


# --- turn graph ---
CALL = '\n{"name": "note", "arguments": {"text": "Hello, world", "count": 12}}\n'
NOTE = tools.tool("note", {"text": {"type": "string"}, "count": {"type": "integer"}})


def tokens_of(vocabulary):
    marks = vocabulary.marks.tokens
    call = [marks["<tool_call>"], *vocabulary.encode(CALL), marks["</tool_call>"]]
    return [*vocabulary.encode("Let me see."), *call, min(vocabulary.call_ends)]


def test_known_tokens_are_not_looked_up_in_the_rules(compile_tool, turns, vocabulary, monkeypatch):
    """The second sequence asks neither the rules nor an engine, whatever its own text is."""
    grammars = [compile_tool(tool) for tool in parse_tools([NOTE])]
    spec = Spec("auto", budget=10_000, reasoning="closed")

    def run(tokens):
        machine = Automaton(turns, spec, grammars)
        for token in tokens:
            assert machine.next_row().words[token // 32] >> (token % 32) & 1
            assert machine.accept(token)
        assert machine.is_terminated()

    run(tokens_of(vocabulary))
    monkeypatch.setattr(turn_graph.Turn, "step", None)
    monkeypatch.setattr(turn_graph.Turn, "mask", None)
    monkeypatch.setattr(Scouts, "take", None)
    run(tokens_of(vocabulary))


@pytest.mark.parametrize("limits", [{"budget": 30}, {"min_tokens": 3}, {"reasoning_budget": 1}])
def test_limits_decide_beside_sequences_without_them(automaton, vocabulary, limits):
    """A shared graph has no decision of another sequence's budget, and none is missed."""
    how = {"choice": "required", "reasoning": "open"}
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
    compile_tool, turns, model_data, vocabulary
):
    """In a server it looks for old ones so rarely that thousands of grammars would be kept."""
    gc.collect()
    gc.disable()
    try:
        grammar = compile_tool(*parse_tools([NOTE]))
        machine = Automaton(turns, Spec("auto", budget=999, reasoning="closed"), [grammar])
        for token in tokens_of(vocabulary):
            machine.next_row()
            assert machine.accept(token)
        root = model_data.graphs.graph_of(grammar).root
        kept = [weakref.ref(each) for each in (machine._graph, grammar, grammar.compiled)]
        assert all(each() is not None for each in kept)
        turns.forget(grammar)
        del machine, grammar
        assert not any(each() for each in kept)
        for _ in range(9):
            model_data.graphs.memory.tidy()
        assert not root.next
        assert len(gc.get_referrers(root)) == 0
    finally:
        gc.enable()


def test_graphs_are_bounded(automaton, turns, monkeypatch):
    monkeypatch.setattr(turn_graph, "MAX_TURNS", 3)
    for number in range(6):
        automaton([NOTE], choice="auto", max_calls=number + 1)
    assert len(turns) == 3


def test_a_turn_begins_anew_at_its_bound(automaton, vocabulary, monkeypatch):
    monkeypatch.setattr(turn_graph, "MAX_NODES", 4)
    for _ in range(3):
        machine = automaton([NOTE], choice="auto", reasoning="closed", max_calls=7)
        for token in tokens_of(vocabulary):
            assert machine.accept(token)
        assert machine.is_terminated()


def test_forced_text_has_a_mask_wherever_it_was_first_reached(automaton, vocabulary):
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
def test_numbers_that_are_no_tokens_are_refused(automaton, vocabulary, reasoning):
    """vLLM pads drafts with -1."""
    machine = automaton([NOTE], choice="auto", reasoning=reasoning)
    assert machine.accept_tokens(vocabulary.encode("Let me see"))
    for token in (-1, -2, vocabulary.size, 10**7):
        assert not machine.accept(token)
    assert machine.validate_tokens([-1]) == []


def test_steps_near_a_budget_make_no_nodes_for_each_request(
    compile_tool, vocabulary, turns, model_data
):
    grammars = [compile_tool(tool) for tool in parse_tools([NOTE])]
    tokens = tokens_of(vocabulary)[: len(vocabulary.encode("Let me see.")) + 6]
    sizes = []
    for _ in range(4):
        machine = Automaton(turns, Spec("auto", budget=60), grammars)
        assert machine.accept_tokens(tokens)
        sizes.append(model_data.graphs.memory.bytes)
    assert sizes[-1] == sizes[1]
