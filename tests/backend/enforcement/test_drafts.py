"""Drafts: forced text, what equal requests wrote, and repeated text."""

import json
from itertools import takewhile
from pathlib import Path

import pytest

from tests import tools
from tests.support.walker.walk import mask_of
from toolgate_backend.enforcement.jump_forward import (
    FORCED_BYTES,
    JumpForward,
    RepeatedText,
    learn,
)
from toolgate_backend.enforcement.token_limits import TOKENS_BETWEEN_CHECKS

CASES = json.loads(Path(__file__).with_name("drafts.json").read_text())


# --- jump forward ---
@pytest.fixture
def forecast(vocabulary):
    return JumpForward(vocabulary.encode)


def text(vocabulary, tokens):
    return b"".join(vocabulary.token_bytes[token] for token in tokens)


def allowed(machine, vocabulary):
    return mask_of(machine, vocabulary.size).tolist()


@pytest.mark.parametrize("tool", [tools.WEATHER, tools.TAGS], ids=lambda t: t["function"]["name"])
def test_a_forced_call_is_drafted_up_to_the_first_free_value(automaton, forecast, vocabulary, tool):
    machine = automaton([tool], choice="required")
    drafts = forecast.drafts(machine, [], 64)
    name = tool["function"]["name"]
    assert drafts[0] == vocabulary.marks.tokens["<tool_call>"]
    assert text(vocabulary, drafts[1:]).startswith(
        f'\n{{"name": "{name}", "arguments": {{"'.encode()
    )


def test_the_common_prefix_of_several_tools_is_drafted(automaton, forecast, vocabulary):
    machine = automaton(
        [tools.tool("get_time", {"x": {"type": "integer"}}), tools.WEATHER], choice="required"
    )
    drafts = forecast.drafts(machine, [], 64)
    assert text(vocabulary, drafts[1:]) == b'\n{"name": "get_'


def test_valid_proposed_drafts_are_kept_and_extended(automaton, forecast, vocabulary):
    machine = automaton([tools.WEATHER], choice="required", max_calls=1)
    known = forecast.drafts(machine, [], 64)
    assert text(vocabulary, known[1:]).endswith(b'"arguments": {"')
    guess = [*known, *vocabulary.encode('city": "Oslo"')]
    drafts = forecast.drafts(machine, guess, 64)
    assert drafts[: len(guess)] == guess
    wrong = [*vocabulary.encode("no call"), *guess]
    assert forecast.drafts(machine, wrong, 64) == known


def test_a_long_constant_is_encoded_only_as_far_as_it_is_drafted(automaton, vocabulary):
    spelt = []

    def encode(text):
        spelt.append(text)
        return vocabulary.encode(text)

    constant = tools.tool("f", {"a": {"type": "string", "const": "word " * 2_000}})
    drafts = JumpForward(encode).drafts(automaton([constant], choice="required"), [], 64)
    assert len(drafts) == 64
    assert max(map(len, spelt)) <= FORCED_BYTES


@pytest.mark.parametrize("known", [0, 1, 3])
def test_the_drafts_of_the_next_step_follow_the_tokens_in_flight(
    automaton, forecast, vocabulary, known
):
    """The step that runs has the draft `in_flight`, and samples one token more."""
    machine = automaton([tools.WEATHER], choice="required")
    forced = forecast.drafts(machine, [], 64)
    in_flight = forced[:known]
    before = allowed(machine, vocabulary)
    assert forecast.plan(machine, in_flight, 64).following == forced[known + 1 :]
    assert forecast.plan(machine, in_flight, 2).following == forced[known + 1 : known + 3]
    assert allowed(machine, vocabulary) == before


def test_what_the_prompt_expects_is_drafted_where_nothing_is_forced(
    automaton, forecast, vocabulary
):
    machine = automaton([tools.WEATHER], choice="required")
    city = vocabulary.encode("Oslo or the town hall of Bergen")
    begun = [*forecast.drafts(machine, [], 64), *vocabulary.encode('city": "'), *city[:2]]
    assert machine.accept_tokens(begun)
    text = RepeatedText(city)
    text.update(machine.tokens)
    assert forecast.plan(machine, [], 3).following == []
    before = allowed(machine, vocabulary)
    assert forecast.plan(machine, [], 3, text).following == list(city[3:6])
    assert forecast.plan(machine, city[2:4], 2, text).following == list(city[5:7])
    assert allowed(machine, vocabulary) == before


def test_no_draft_follows_the_end_of_the_turn_or_free_text(automaton, forecast, vocabulary):
    machine = automaton([], choice="none")
    assert forecast.plan(machine, [vocabulary.marks.end_of_turn[0]], 8).following == []
    free = automaton(tools.ALL, choice="auto")
    assert forecast.drafts(free, [], 8) == forecast.plan(free, [], 8).following == []


def test_drafts_end_where_a_limit_on_tokens_may_decide(automaton, forecast):
    """A call is checked for repetition at every so many of its tokens."""
    constant = tools.tool("f", {"a": {"type": "string", "const": "word " * 100}})
    machine = automaton([constant], choice="required", repetition_tokens=64)
    drafts = forecast.drafts(machine, [], 100)
    assert TOKENS_BETWEEN_CHECKS <= len(drafts) < TOKENS_BETWEEN_CHECKS + 10
    assert machine.accept_tokens(drafts)
    assert forecast.drafts(machine, [], 100) == []


# --- usual tokens ---
A_FIRST, B_FIRST = '{"a": 7, "b": 4', '{"b": 4, "a": 7'
TOOL = tools.tool("f", {"b": {"type": "integer"}, "a": {"type": "integer"}})


def call(vocabulary, arguments):
    form = vocabulary.form
    before, _ = form.grammar_texts("f")
    return [*vocabulary.literal_tokens(form.begin + form.head("f") + before + arguments)]


def write(machine, tokens):
    """Write another response to the same request."""
    machine.reset()
    assert machine.accept_tokens(tokens)
    learn(machine.last_steps(len(tokens)))


def draft(machine, begun, forecast):
    machine.reset()
    assert machine.accept_tokens(begun)
    return forecast.drafts(machine, (), 64)


def shared(first, second):
    """The tokens with which both begin."""
    return [
        a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    ]


def test_members_are_drafted_in_the_order_of_the_last_two_calls(automaton, forecast, vocabulary):
    written, other = call(vocabulary, A_FIRST), call(vocabulary, B_FIRST)
    begun = shared(written, other)
    machine = automaton([TOOL], choice="required")
    for _ in range(2):
        assert draft(machine, begun, forecast) == []
        write(machine, written)
    drafts = draft(machine, begun, forecast)
    assert drafts[: len(written) - len(begun)] == written[len(begun) :]


def test_what_differs_from_call_to_call_is_not_drafted(automaton, forecast, vocabulary):
    written, other = call(vocabulary, A_FIRST), call(vocabulary, B_FIRST)
    machine = automaton([TOOL], choice="required")
    for tokens in (written, other, written):
        write(machine, tokens)
    assert draft(machine, shared(written, other), forecast) == []


def test_free_text_is_not_learnt(automaton, forecast, vocabulary):
    machine = automaton(tools.ALL, choice="auto")
    tokens = vocabulary.encode("The same words each time")
    for _ in range(3):
        write(machine, tokens)
    assert draft(machine, tokens[:2], forecast) == []
    assert machine.accept_tokens(tokens)
    assert all(node.usual < 0 for node, _ in machine.last_steps(len(tokens)))


# --- repeated text ---
PROMPT = [1, 2, 3, 4, 5, 2, 3, 9, 258, 65537, 7]


@pytest.mark.parametrize(("output", "last", "expected"), CASES["text_after_the_last_tokens"])
def test_text_after_the_last_tokens(output, last, expected):
    text = RepeatedText(PROMPT)
    text.update(output[:1])
    text.update(output)
    assert text.following(last, 3) == expected


def test_a_text_without_a_prompt_has_nothing_to_repeat():
    text = RepeatedText([])
    assert text.following([1, 2], 3) == []
    text.update([1])
    assert text.following([], 3) == []
