"""Forced text as drafts: what is proposed may come, and is all that must."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests import tools
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.jump_forward import BYTES_PER_TOKEN, JumpForward, RepeatedText
from toolgate_backend.tokens.masks import unpack
from toolgate_backend.tokens.vocabulary import Vocabulary

MakeAutomaton = Callable[..., Automaton]


@pytest.fixture
def forecast(vocabulary: Vocabulary) -> JumpForward:
    return JumpForward(vocabulary.encode)


def text(vocabulary: Vocabulary, tokens: list[int]) -> bytes:
    return b"".join(vocabulary.token_bytes[token] for token in tokens)


def allowed(machine: Automaton, vocabulary: Vocabulary) -> list[int]:
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    machine.fill_bitmask(row)
    return [int(token) for token in unpack(row)]


@pytest.mark.parametrize("tool", [tools.WEATHER, tools.TAGS], ids=lambda t: t["function"]["name"])
def test_a_forced_call_is_drafted_up_to_the_first_free_value(
    automaton: MakeAutomaton, forecast: JumpForward, vocabulary: Vocabulary, tool: dict[str, Any]
) -> None:
    machine = automaton([tool], choice="required")
    drafts = forecast.drafts(machine, [], 64)
    name = tool["function"]["name"]
    assert drafts[0] == vocabulary.marks.tokens["<tool_call>"]
    assert text(vocabulary, drafts[1:]).startswith(
        f'\n{{"name": "{name}", "arguments": {{"'.encode()
    )


def test_the_common_prefix_of_several_tools_is_drafted(
    automaton: MakeAutomaton, forecast: JumpForward, vocabulary: Vocabulary
) -> None:
    machine = automaton(
        [tools.tool("get_time", {"x": {"type": "integer"}}), tools.WEATHER], choice="required"
    )
    drafts = forecast.drafts(machine, [], 64)
    assert text(vocabulary, drafts[1:]) == b'\n{"name": "get_'


def test_free_text_is_not_drafted(automaton: MakeAutomaton, forecast: JumpForward) -> None:
    assert forecast.drafts(automaton(tools.ALL, choice="auto"), [], 8) == []


def test_valid_proposed_drafts_are_kept_and_extended(
    automaton: MakeAutomaton, forecast: JumpForward, vocabulary: Vocabulary
) -> None:
    machine = automaton([tools.WEATHER], choice="required", max_calls=1)
    known = forecast.drafts(machine, [], 64)
    assert text(vocabulary, known[1:]).endswith(b'"arguments": {"')
    guess = [*known, *vocabulary.encode('city": "Oslo"')]
    drafts = forecast.drafts(machine, guess, 64)
    assert drafts[: len(guess)] == guess
    wrong = [*vocabulary.encode("no call"), *guess]
    assert forecast.drafts(machine, wrong, 64) == known


@pytest.mark.exhaustive
def test_drafts_are_allowed_by_the_masks_and_do_not_change_the_state(
    automaton: MakeAutomaton, forecast: JumpForward, vocabulary: Vocabulary
) -> None:
    """Drafts on random walks stay within the limit, are never masked and keep the state."""
    rng = random.Random(3)
    proposed_any = 0
    for _ in range(6):
        machine = automaton(tools.ALL, choice="required", reasoning="must")
        for _ in range(120):
            before = allowed(machine, vocabulary)
            limit = rng.randint(0, 7)
            noise = [rng.choice(before), *rng.choices(range(vocabulary.size), k=3)]
            drafts = forecast.drafts(machine, noise if rng.random() < 0.5 else [], limit)
            assert len(drafts) <= limit
            assert machine.validate_tokens(drafts) == drafts
            assert allowed(machine, vocabulary) == before
            proposed_any += bool(drafts)
            assert machine.accept_tokens([rng.choice(before)])
            if machine.is_terminated():
                break
    assert proposed_any > 50


def test_a_long_constant_is_encoded_only_up_to_the_draft_limit(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    spelt: list[str] = []

    def encode(text: str) -> tuple[int, ...]:
        spelt.append(text)
        return vocabulary.encode(text)

    constant = tools.tool("f", {"a": {"type": "string", "const": "word " * 2_000}})
    drafts = JumpForward(encode).drafts(automaton([constant], choice="required"), [], 64)
    assert len(drafts) == 64
    assert max(map(len, spelt)) <= 64 * BYTES_PER_TOKEN


@pytest.mark.parametrize("known", [0, 1, 3])
def test_the_drafts_of_the_next_step_follow_the_tokens_in_flight(
    automaton: MakeAutomaton, forecast: JumpForward, vocabulary: Vocabulary, known: int
) -> None:
    """The step that runs has the draft `in_flight`, and samples one token more."""
    machine = automaton([tools.WEATHER], choice="required")
    forced = forecast.drafts(machine, [], 64)
    in_flight = forced[:known]
    before = allowed(machine, vocabulary)
    assert forecast.drafts_after(machine, in_flight, 64) == forced[known + 1 :]
    assert forecast.drafts_after(machine, in_flight, 2) == forced[known + 1 : known + 3]
    assert allowed(machine, vocabulary) == before


def test_what_the_prompt_expects_is_drafted_where_nothing_is_forced(
    automaton: MakeAutomaton, forecast: JumpForward, vocabulary: Vocabulary
) -> None:
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


def test_no_draft_follows_the_end_of_the_turn_or_free_text(
    automaton: MakeAutomaton, forecast: JumpForward, vocabulary: Vocabulary
) -> None:
    machine = automaton([], choice="none")
    assert forecast.drafts_after(machine, [vocabulary.marks.end_of_turn[0]], 8) == []
    assert forecast.drafts_after(automaton(tools.ALL, choice="auto"), [], 8) == []
