"""Drafts of what equal requests wrote at the same place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

import pytest

from tests import tools
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.jump_forward import JumpForward, learn, usual_token
from toolgate_backend.tokens.vocabulary import Vocabulary

MakeAutomaton = Callable[..., Automaton]
A_FIRST, B_FIRST = '{"a": 7, "b": 4', '{"b": 4, "a": 7'
TOOL = tools.tool("f", {"b": {"type": "integer"}, "a": {"type": "integer"}})


@pytest.fixture
def forecast(vocabulary: Vocabulary) -> JumpForward:
    return JumpForward(vocabulary.encode)


def call(vocabulary: Vocabulary, arguments: str) -> list[int]:
    form = vocabulary.form
    before, _ = form.grammar_texts("f")
    return [*vocabulary.literal_tokens(form.begin + form.head("f") + before + arguments)]


def write(machine: Automaton, tokens: Sequence[int]) -> None:
    """Write another response to the same request."""
    machine.reset()
    assert machine.accept_tokens(tokens)
    learn(machine.last_steps(len(tokens)))


def draft(machine: Automaton, begun: Sequence[int], forecast: JumpForward) -> list[int]:
    machine.reset()
    assert machine.accept_tokens(begun)
    return forecast.drafts(machine, (), 64)


def shared(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """The tokens with which both begin."""
    return [
        a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    ]


def test_members_are_drafted_in_the_order_of_the_last_two_calls(
    automaton: MakeAutomaton, forecast: JumpForward, vocabulary: Vocabulary
) -> None:
    written, other = call(vocabulary, A_FIRST), call(vocabulary, B_FIRST)
    begun = shared(written, other)
    machine = automaton([TOOL], choice="required")
    for _ in range(2):
        assert draft(machine, begun, forecast) == []
        write(machine, written)
    drafts = draft(machine, begun, forecast)
    assert drafts[: len(written) - len(begun)] == written[len(begun) :]


def test_what_differs_from_call_to_call_is_not_drafted(
    automaton: MakeAutomaton, forecast: JumpForward, vocabulary: Vocabulary
) -> None:
    written, other = call(vocabulary, A_FIRST), call(vocabulary, B_FIRST)
    machine = automaton([TOOL], choice="required")
    for tokens in (written, other, written):
        write(machine, tokens)
    assert draft(machine, shared(written, other), forecast) == []


def test_free_text_is_not_learnt(
    automaton: MakeAutomaton, forecast: JumpForward, vocabulary: Vocabulary
) -> None:
    machine = automaton(tools.ALL, choice="auto")
    tokens = vocabulary.encode("The same words each time")
    for _ in range(3):
        write(machine, tokens)
    assert draft(machine, tokens[:2], forecast) == []
    assert machine.place is not None
    assert usual_token(machine.place) is None
