"""The rules of a turn: what may follow what, under which limits."""

import random

import numpy as np
import pytest

from tests import tools
from tests.support.dialects.model import DialectModel, calls_in
from tests.support.walker.walk import Enforced, walk
from tests.support.walker.walk import mask_of as allowed
from toolgate_backend.endpoint.sampling import check_budget, sampling_params
from toolgate_backend.enforcement.spec import CallIdentifiers, Spec, from_extra_args
from toolgate_backend.enforcement.state import Phase
from toolgate_backend.errors import BackendError
from toolgate_core import wire
from toolgate_core.deltas import ReasoningDelta
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import BudgetTooSmall
from toolgate_core.tools import parse_tools

# --- automaton ---


def walked(machine, vocabulary, seed, limit=400):
    """Random tokens among those allowed; False if the turn did not end."""
    source, dice = Enforced(machine, vocabulary.size), random.Random(seed)
    whole = walk(source, lambda allowed: int(dice.choice(allowed)), limit)
    return source.tokens, whole


def test_validate_tokens_returns_the_valid_prefix_without_side_effects(automaton, vocabulary):
    machine = automaton([tools.WEATHER], choice="required")
    begin = vocabulary.marks.tokens["<tool_call>"]
    text = vocabulary.encode('\n{"name": "get_weather", "arguments": {"city": "')
    drafts = [begin, *text, begin, *text]
    assert machine.validate_tokens(drafts) == [begin, *text]
    assert machine.state.phase is Phase.CONTENT
    assert machine.accept_tokens([begin, *text])


def test_mark_text_inside_a_string_does_not_end_the_call(automaton, vocabulary):
    machine = automaton([tools.WEATHER], choice="required", max_calls=1)
    call = '\n{"name": "get_weather", "arguments": {"city": "</tool_call><|im_end|>"}}\n'
    spelled = [i for c in call for i in vocabulary.encode(c)]
    marks = vocabulary.marks
    tokens = [marks.tokens["<tool_call>"], *spelled, marks.tokens["</tool_call>"]]
    tokens.append(marks.end_of_turn[-1])
    assert machine.accept_tokens(tokens)
    assert machine.is_terminated()
    found = calls_in(DialectModel(DIALECTS["qwen3"]).segment(tokens, required=True))
    assert found == [("get_weather", '{"city": "</tool_call><|im_end|>"}')]


def test_special_tokens_are_masked_inside_a_call(automaton, vocabulary):
    machine = automaton([tools.WEATHER], choice="required")
    machine.accept_tokens([vocabulary.marks.tokens["<tool_call>"]])
    machine.accept_tokens(vocabulary.encode('\n{"name": "get_weather", "arguments": {"city": "x'))
    assert not vocabulary.special & {int(i) for i in allowed(machine, vocabulary.size)}


@pytest.mark.parametrize("choice", ["none", "auto"])
def test_content_cannot_spell_a_mark_in_ordinary_tokens(automaton, vocabulary, choice):
    machine = automaton([tools.WEATHER] if choice == "auto" else [], choice=choice)
    assert machine.accept_tokens([i for c in "see <tool_call" for i in vocabulary.encode(c)])
    after = {vocabulary.token_bytes[i] for i in allowed(machine, vocabulary.size)}
    assert not any(text.startswith(b">") for text in after)
    assert b"x" in after
    assert not machine.accept_tokens(vocabulary.encode(">"))


def test_end_is_masked_until_min_tokens(automaton, vocabulary):
    machine = automaton([], choice="none", min_tokens=3)
    ends = set(vocabulary.marks.end_of_turn)
    word = vocabulary.encode("a")
    for _ in range(3):
        assert not ends & set(allowed(machine, vocabulary.size))
        assert machine.accept_tokens(word)
    assert ends <= set(allowed(machine, vocabulary.size))


@pytest.mark.parametrize("reasoning", ["open", "closed"])
def test_bad_words_are_masked_in_free_text(automaton, vocabulary, reasoning):
    one, two = vocabulary.encode("x"), vocabulary.encode("yz!")
    assert len(two) > 1
    machine = automaton([], choice="none", reasoning=reasoning, bad_words=(one, two))
    assert not machine.validate_tokens(one)
    assert machine.validate_tokens(two) == [*two[:-1]]
    assert machine.accept_tokens(two[:-1])
    assert two[-1] not in allowed(machine, vocabulary.size)
    machine.reset()
    assert machine.accept_tokens(vocabulary.encode("a"))
    assert two[-1] in allowed(machine, vocabulary.size)


def test_bad_words_are_not_masked_inside_calls(automaton, vocabulary):
    call = '\n{"name": "get_weather", "arguments": {"city": "x"}}\n'
    tokens = [i for c in call for i in vocabulary.encode(c)]
    machine = automaton([tools.WEATHER], choice="required", bad_words=tuple({(i,) for i in tokens}))
    marks = vocabulary.marks
    assert machine.accept_tokens(
        [marks.tokens["<tool_call>"], *tokens, marks.tokens["</tool_call>"]]
    )


def test_stop_tokens_end_the_content(automaton, vocabulary):
    marks = vocabulary.marks
    [word] = vocabulary.encode("a")
    taken = {*marks.tokens.values(), marks.failure, marks.cut, *marks.end_of_turn}
    special = max(vocabulary.special - taken)
    machine = automaton([tools.WEATHER], choice="auto", stop_ids=(word, special))
    assert special in allowed(machine, vocabulary.size)
    assert machine.accept_tokens([word])
    assert set(allowed(machine, vocabulary.size)) == set(marks.end_of_turn)
    machine.reset()
    assert machine.accept_tokens([special])
    assert machine.is_terminated()
    thinking = automaton([], choice="none", reasoning="open", stop_ids=(word,))
    assert thinking.accept_tokens([word, word])


def test_ignore_end_masks_the_end_of_turn(automaton, vocabulary):
    machine = automaton([tools.WEATHER], choice="auto", ignore_end=True)
    ends = set(vocabulary.marks.end_of_turn)
    assert not ends & set(allowed(machine, vocabulary.size))
    assert vocabulary.marks.tokens["<tool_call>"] in allowed(machine, vocabulary.size)


def test_skip_reasoning_closes_reasoning_opened_by_the_prompt(automaton, vocabulary):
    machine = automaton([], choice="none", reasoning="open", skip_reasoning=True)
    assert list(allowed(machine, vocabulary.size)) == [vocabulary.marks.tokens["</think>"]]


# --- budget ---


def least(vocabulary, bodies, spec):
    """What `check_budget` says that the request takes at the least."""
    with pytest.raises(BudgetTooSmall) as refused:
        check_budget(
            Spec(**spec, keys=tuple(bodies), budget=1), bodies.__getitem__, vocabulary, asked_for=1
        )
    assert refused.value.param == "max_tokens"
    return refused.value.least


@pytest.fixture(scope="session")
def bodies(compile_tool):
    return {tool.name: compile_tool(tool).least_tokens for tool in parse_tools(tools.ALL)}


@pytest.mark.parametrize(
    ("budget", "call_tokens", "expected"),
    [
        *((400, None, 400 - 64), (100, None, 50)),
        *((400, 0, 400), (400, 150, 250), (400, 900, 200), (100, 90, 50)),
    ],
)
def test_reasoning_leaves_room_for_a_call_of_usual_length(
    automaton, vocabulary, bodies, budget, call_tokens, expected
):
    """At most half of the budget, and the shortest call in any case."""
    machine = automaton(
        [tools.WEATHER], choice="required", reasoning="open", budget=budget, call_tokens=call_tokens
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
def test_a_reasoning_budget_closes_the_reasoning(automaton, vocabulary, reasoning, budget, choice):
    how = {"choice": choice, "reasoning": reasoning, "reasoning_budget": budget, "budget": 200}
    machine, found = automaton(tools.ALL, **how), DialectModel(DIALECTS["qwen3"])
    for seed in range(2):
        machine.reset()
        tokens, whole = walked(machine, vocabulary, seed, 200)
        assert machine._progress.reasoning_at(len(tokens)) <= budget
        reason = "stop" if whole else "length"
        events = found.segment(tokens, reason=reason, reasoning_open=reasoning == "open")
        if budget == 0:
            assert not any(isinstance(event, ReasoningDelta) for event in events)


def test_auto_does_not_begin_a_call_that_exceeds_the_budget(automaton, vocabulary, bodies):
    begin, body = vocabulary.marks.tokens["<tool_call>"], bodies["get_weather"]
    for budget, begins in ((body + 2, False), (body + 3, True)):
        machine = automaton([tools.WEATHER], choice="auto", budget=budget)
        assert (begin in allowed(machine, vocabulary.size)) is begins
        assert machine.accept_tokens([begin]) is begins


def test_a_second_call_that_exceeds_the_budget_is_not_begun(automaton, vocabulary, bodies):
    call = '\n{"name": "get_weather", "arguments": {"city": ""}}\n'
    marks = vocabulary.marks
    first = [marks.tokens["<tool_call>"], *vocabulary.encode(call), marks.tokens["</tool_call>"]]
    room = 1 + 1 + bodies["get_weather"] + 2  # separator, mark, body, mark and end
    for budget, begins in ((len(first) + room - 1, False), (len(first) + room, True)):
        machine = automaton([tools.WEATHER], choice="required", budget=budget)
        assert machine.accept_tokens(first)
        assert machine.accept_tokens(vocabulary.encode("\n")) is begins


def test_a_tool_whose_shortest_call_exceeds_the_budget_is_excluded(automaton, vocabulary, bodies):
    small, large = sorted(bodies, key=bodies.__getitem__)[:: len(bodies) - 1]
    offered = [t for t in tools.ALL if t["function"]["name"] in (small, large)]
    machine = automaton(offered, choice="required", budget=bodies[small] + 3)
    machine.accept_tokens([vocabulary.marks.tokens["<tool_call>"]])
    assert not machine.accept_tokens(vocabulary.encode(f'\n{{"name": "{large}", '))
    machine.reset()
    machine.accept_tokens([vocabulary.marks.tokens["<tool_call>"]])
    assert machine.accept_tokens(vocabulary.encode(f'\n{{"name": "{small}", '))


# --- accepted ---


def test_excluded_tokens_do_not_follow_the_accepted_ones(automaton, vocabulary):
    """Unless no other token is allowed there, and only at that place."""
    how = {"choice": "required", "reasoning": "must"}
    tokens, _ = walked(automaton(tools.ALL, **how), vocabulary, seed=3)
    machine = automaton(tools.ALL, **how)
    alone = 0
    for at, token in enumerate(tokens[:100]):
        if at % 11 and at > 6:
            assert machine.accept_tokens([token])
            continue
        heir = automaton(tools.ALL, **how, accepted=tuple(tokens[:at]), excluded=(token,))
        before = allowed(machine, vocabulary.size)
        others = before[before != token]
        for _ in range(2):
            mask = allowed(heir, vocabulary.size)
            if others.size:
                assert np.array_equal(mask, others)
                assert not heir.accept_tokens([token])
                assert heir.validate_tokens([token]) == []
                assert heir.accept_tokens([int(others[0])])
                heir.rollback(1)
                assert np.array_equal(allowed(heir, vocabulary.size), others)
            else:
                alone += 1
                assert np.array_equal(mask, before)
                assert heir.accept_tokens([token])
                heir.rollback(1)
            heir.reset()
        assert machine.accept_tokens([token])
    assert alone


def test_accepted_tokens_may_exceed_the_remaining_budget(automaton, vocabulary):
    how = {"choice": "required", "reasoning": "must"}
    tokens, _ = walked(automaton(tools.ALL, **how, budget=300), vocabulary, seed=4)
    for at in range(0, len(tokens) - 1, 37):
        heir = automaton(tools.ALL, **how, accepted=tuple(tokens[:at]), budget=at + 2)
        assert len(allowed(heir, vocabulary.size))


def test_accepted_tokens_that_violate_the_masks_are_rejected(automaton, vocabulary):
    with pytest.raises(BackendError):
        automaton([tools.WEATHER], choice="required", accepted=tuple(vocabulary.encode("Hello")))


def test_the_rest_of_the_budget_decides_which_calls_follow_accepted_ones(
    automaton, vocabulary, compile_tool
):
    """As if the accepted tokens had been sampled under it, also inside the next call's beginning.
    If no call fits any more, one that has begun goes on."""
    marks, call = vocabulary.marks, '\n{"name": "get_weather", "arguments": {"city": ""}}\n'
    begin, end = marks.tokens["<tool_call>"], marks.tokens["</tool_call>"]
    first = (begin, *vocabulary.encode(call), end)
    further = (*vocabulary.encode("\n"), begin, *vocabulary.encode('\n{"name": "'))
    sizes = sorted(compile_tool(tool).least_tokens or 0 for tool in parse_tools(tools.ALL))
    names = set()
    for size in (sizes[0] - 1, *sizes):
        # A separator and a mark, and after the body, a mark and the end.
        how = {"choice": "required", "budget": len(first) + 2 + size + 2}
        for count in (*range(0, len(further), 5), len(further)):
            accepted = (*first, *further[:count])
            heir = automaton(tools.ALL, **how, accepted=accepted)
            mask = allowed(heir, vocabulary.size)
            machine = automaton(tools.ALL, **how)
            assert machine.accept_tokens(first)
            if machine.accept_tokens(further[:count]):
                assert np.array_equal(mask, allowed(machine, vocabulary.size))
            else:
                assert size < sizes[0]
                assert heir.accept_tokens(further[count:])
        names.add(mask.tobytes())
    assert len(names) > 2


# --- call ids ---
WITH_IDS = ("kimi_k2", "mistral_v3", "mistral_v11", "cohere_r7b", "solar_open")


def ids(dialect, spec, count=3):
    identifiers = CallIdentifiers(DIALECTS[dialect])
    return [identifiers.call_id(spec, index) for index in range(count)]


@pytest.mark.parametrize("dialect", WITH_IDS)
def test_choices_of_a_response_have_different_ids(dialect):
    """vLLM gives each choice the seed of the first one plus its number, and the same spec."""
    sent = Spec("auto", earlier_calls=2, id_seed="a", first_seed=7).to_extra_args()
    choices = [from_extra_args(sent, seed) for seed in (7, 8, 9)]
    found = [name for spec in choices if spec for name in ids(dialect, spec)]
    assert len({*found}) == 9
    first = Spec("auto", earlier_calls=2, id_seed="a")
    assert found[:3] == ids(dialect, first)


@pytest.mark.parametrize("dialect", WITH_IDS)
def test_continued_choice_has_the_ids_of_its_number(dialect):
    sent = Spec("auto", id_seed="a", first_seed=7).to_extra_args()
    second = from_extra_args(sent, 8)
    assert second is not None
    continued = Spec("auto", id_seed="a", choice_number=1, accepted=(1, 2))
    assert ids(dialect, second) == ids(dialect, continued)


def test_conversation_counts_on_and_a_turn_begins_anew():
    spec = Spec("auto", earlier_calls=4)
    assert ids("kimi_k2", spec) == ["4", "5", "6"]
    assert ids("cohere_r7b", spec) == ["0", "1", "2"]


@pytest.mark.parametrize(("dialect", "seeded"), [("kimi_k2", True), ("qwen3", False)])
def test_choices_have_seeds_if_their_ids_depend_on_them(dialect, seeded):
    vocabulary = DialectModel(DIALECTS[dialect], mark_texts(DIALECTS[dialect])).vocabulary
    made = sampling_params(
        wire.Sampling(n=2), Spec("auto"), vocabulary, {}, budget=9, stream=True, hooked=False
    )
    spec = from_extra_args(made.extra_args)
    assert spec is not None
    assert (made.seed is not None) is seeded
    assert spec.first_seed == made.seed
