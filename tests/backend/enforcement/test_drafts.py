"""Drafts: forced text, what equal requests wrote, and repeated text."""

import json
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

from tests import tools
from toolgate_backend.enforcement.jump_forward import (
    BYTES_PER_TOKEN,
    JumpForward,
    RepeatedText,
    learn,
    usual_token,
)
from toolgate_backend.tokens.masks import unpack

CASES = json.loads(Path(__file__).with_name("drafts.json").read_text())


# --- jump forward ---
@pytest.fixture
def forecast(vocabulary):
    return JumpForward(vocabulary.encode)


def text(vocabulary, tokens):
    return b"".join(vocabulary.token_bytes[token] for token in tokens)


def allowed(machine, vocabulary):
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    machine.fill_bitmask(row)
    return [int(token) for token in unpack(row)]


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


def test_a_long_constant_is_encoded_only_up_to_the_draft_limit(automaton, vocabulary):
    spelt = []

    def encode(text):
        spelt.append(text)
        return vocabulary.encode(text)

    constant = tools.tool("f", {"a": {"type": "string", "const": "word " * 2_000}})
    drafts = JumpForward(encode).drafts(automaton([constant], choice="required"), [], 64)
    assert len(drafts) == 64
    assert max(map(len, spelt)) <= 64 * BYTES_PER_TOKEN


@pytest.mark.parametrize("known", [0, 1, 3])
def test_the_drafts_of_the_next_step_follow_the_tokens_in_flight(
    automaton, forecast, vocabulary, known
):
    """The step that runs has the draft `in_flight`, and samples one token more."""
    machine = automaton([tools.WEATHER], choice="required")
    forced = forecast.drafts(machine, [], 64)
    in_flight = forced[:known]
    before = allowed(machine, vocabulary)
    assert forecast.drafts_after(machine, in_flight, 64) == forced[known + 1 :]
    assert forecast.drafts_after(machine, in_flight, 2) == forced[known + 1 : known + 3]
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
    assert forecast.drafts_after(machine, [], 3) == []
    before = allowed(machine, vocabulary)
    assert forecast.drafts_after(machine, [], 3, text) == list(city[3:6])
    assert forecast.drafts_after(machine, city[2:4], 2, text) == list(city[5:7])
    assert allowed(machine, vocabulary) == before


def test_no_draft_follows_the_end_of_the_turn_or_free_text(automaton, forecast, vocabulary):
    machine = automaton([], choice="none")
    assert forecast.drafts_after(machine, [vocabulary.marks.end_of_turn[0]], 8) == []
    free = automaton(tools.ALL, choice="auto")
    assert forecast.drafts(free, [], 8) == forecast.drafts_after(free, [], 8) == []


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
    assert machine.place is not None
    assert usual_token(machine.place) is None


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
