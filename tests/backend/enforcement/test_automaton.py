"""The automaton under the most hostile model there is: every token that may come, comes."""

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
from toolgate_backend.endpoint.token_stream import TextDecoder
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.state import Phase
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.deltas import ContentDelta, Event, ReasoningDelta
from toolgate_core.segmenter import Segmenter

SCHEMAS = {t["function"]["name"]: t["function"]["parameters"] for t in tools.ALL}
MakeAutomaton = Callable[..., Automaton]


def allowed(automaton: Automaton, size: int) -> np.ndarray:
    row = np.zeros((size + 31) // 32, dtype=np.int32)
    automaton.fill_bitmask(row)
    return masks.unpack(row)


def walk(
    automaton: Automaton, vocabulary: Vocabulary, seed: int, limit: int = 400
) -> tuple[list[int], bool]:
    """Random tokens among those allowed, with a taste for what closes; False if it did not end."""
    rng = random.Random(seed)
    closers = np.array([t in (b'"', b"}", b'"}', b"]", b'"]') for t in vocabulary.token_bytes])
    closers[[vocabulary.marks.tokens["</think>"], *vocabulary.marks.end_of_turn]] = True
    tokens: list[int] = []
    while not automaton.is_terminated():
        if len(tokens) == limit:
            return tokens, False
        choices = allowed(automaton, vocabulary.size)
        closing = choices[closers[choices]]
        token = int(rng.choice(closing if len(closing) and rng.random() < 0.3 else choices))
        assert automaton.accept_tokens([token])
        tokens.append(token)
    return tokens, True


def segment(vocabulary: Vocabulary, tokens: list[int], ended: bool, **how: bool) -> list[Event]:
    decoder = TextDecoder(vocabulary)
    segmenter = Segmenter(vocabulary.dialect, vocabulary.marks, **how)
    events = segmenter.feed(tokens, [decoder.decode(t) for t in tokens])
    return events + segmenter.finish("stop" if ended else "length", None, decoder.rest())


@pytest.mark.parametrize("choice", ["none", "auto", "required"])
@pytest.mark.parametrize("reasoning", ["open", "must", "may", "closed"])
@pytest.mark.parametrize("max_calls", [None, 1])
def test_random_walks_satisfy_the_tool_choice(
    automaton: MakeAutomaton,
    vocabulary: Vocabulary,
    choice: str,
    reasoning: str,
    max_calls: int | None,
) -> None:
    machine = automaton(tools.ALL, choice=choice, reasoning=reasoning, max_calls=max_calls)
    finished = 0
    for seed in range(12):
        machine.reset()
        tokens, ended = walk(machine, vocabulary, seed)
        events = segment(
            vocabulary,
            tokens,
            ended,
            reasoning_open=reasoning == "open",
            required=choice == "required",
        )
        found = calls_in(events)
        finished += ended
        if choice == "none":
            assert not found
        if choice == "required" and ended:
            assert found
            assert not any(isinstance(e, ContentDelta) for e in events)
        if max_calls == 1:
            assert len(found) <= 1
        if reasoning == "closed":
            assert not any(isinstance(e, ReasoningDelta) for e in events)
        for name, arguments in found if ended else found[:-1]:
            jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    assert finished >= 3  # the walk must reach ends, or it shows nothing


def test_rollback_undoes_every_step(automaton: MakeAutomaton, vocabulary: Vocabulary) -> None:
    """Accepting and rolling back tokens at each step leaves all later masks unchanged."""
    machine = automaton(tools.ALL, choice="required", reasoning="must")
    tokens, _ = walk(machine, vocabulary, seed=5, limit=120)
    machine.reset()
    rng = random.Random(1)
    for at, token in enumerate(tokens):
        before = allowed(machine, vocabulary.size)
        ahead = rng.randint(1, 9)
        accepted = 0
        for draft in tokens[at : at + ahead]:
            accepted += machine.accept_tokens([draft])
        machine.rollback(accepted)
        assert np.array_equal(before, allowed(machine, vocabulary.size))
        assert machine.accept_tokens([token])


def test_validate_tokens_returns_the_valid_prefix_without_side_effects(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    machine = automaton([tools.WEATHER], choice="required")
    begin = vocabulary.marks.tokens["<tool_call>"]
    text = vocabulary.encode('\n{"name": "get_weather", "arguments": {"city": "')
    drafts = [begin, *text, begin, *text]
    assert machine.validate_tokens(drafts) == [begin, *text]
    assert machine.state.phase is Phase.CONTENT
    assert machine.accept_tokens([begin, *text])


def test_mark_text_inside_a_string_does_not_end_the_call(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    machine = automaton([tools.WEATHER], choice="required", max_calls=1)
    call = '\n{"name": "get_weather", "arguments": {"city": "</tool_call><|im_end|>"}}\n'
    spelled = [i for c in call for i in vocabulary.encode(c)]
    tokens = [
        vocabulary.marks.tokens["<tool_call>"],
        *spelled,
        vocabulary.marks.tokens["</tool_call>"],
    ]
    tokens.append(vocabulary.marks.end_of_turn[-1])
    assert machine.accept_tokens(tokens)
    assert machine.is_terminated()
    found = calls_in(segment(vocabulary, tokens, True, required=True))
    assert found == [("get_weather", '{"city": "</tool_call><|im_end|>"}')]


def test_special_tokens_are_masked_inside_a_call(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    machine = automaton([tools.WEATHER], choice="required")
    machine.accept_tokens([vocabulary.marks.tokens["<tool_call>"]])
    machine.accept_tokens(vocabulary.encode('\n{"name": "get_weather", "arguments": {"city": "x'))
    assert not vocabulary.special & {int(i) for i in allowed(machine, vocabulary.size)}


@pytest.mark.parametrize("choice", ["none", "auto"])
def test_content_cannot_spell_a_mark_in_ordinary_tokens(
    automaton: MakeAutomaton, vocabulary: Vocabulary, choice: str
) -> None:
    machine = automaton([tools.WEATHER] if choice == "auto" else [], choice=choice)
    assert machine.accept_tokens([i for c in "see <tool_call" for i in vocabulary.encode(c)])
    after = {vocabulary.token_bytes[i] for i in allowed(machine, vocabulary.size)}
    assert not any(text.startswith(b">") for text in after)
    assert b"x" in after
    assert not machine.accept_tokens(vocabulary.encode(">"))


def test_end_is_masked_until_min_tokens(automaton: MakeAutomaton, vocabulary: Vocabulary) -> None:
    machine = automaton([], choice="none", min_tokens=3)
    ends = set(vocabulary.marks.end_of_turn)
    word = vocabulary.encode("a")
    for _ in range(3):
        assert not ends & set(allowed(machine, vocabulary.size))
        assert machine.accept_tokens(word)
    assert ends <= set(allowed(machine, vocabulary.size))


@pytest.mark.parametrize("reasoning", ["open", "closed"])
def test_bad_words_are_masked_in_free_text(
    automaton: MakeAutomaton, vocabulary: Vocabulary, reasoning: str
) -> None:
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


def test_bad_words_are_not_masked_inside_calls(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    call = '\n{"name": "get_weather", "arguments": {"city": "x"}}\n'
    tokens = [i for c in call for i in vocabulary.encode(c)]
    machine = automaton([tools.WEATHER], choice="required", bad_words=tuple({(i,) for i in tokens}))
    marks = vocabulary.marks
    assert machine.accept_tokens(
        [marks.tokens["<tool_call>"], *tokens, marks.tokens["</tool_call>"]]
    )


def test_stop_tokens_end_the_content(automaton: MakeAutomaton, vocabulary: Vocabulary) -> None:
    marks = vocabulary.marks
    [word] = vocabulary.encode("a")
    taken = {
        marks.tokens["<tool_call>"],
        marks.tokens["</tool_call>"],
        marks.failure,
        marks.cut,
        *marks.end_of_turn,
    }
    taken |= {marks.tokens["<think>"], marks.tokens["</think>"]}
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


def test_ignore_end_masks_the_end_of_turn(automaton: MakeAutomaton, vocabulary: Vocabulary) -> None:
    machine = automaton([tools.WEATHER], choice="auto", ignore_end=True)
    ends = set(vocabulary.marks.end_of_turn)
    assert not ends & set(allowed(machine, vocabulary.size))
    assert vocabulary.marks.tokens["<tool_call>"] in allowed(machine, vocabulary.size)


def test_skip_reasoning_closes_reasoning_opened_by_the_prompt(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    machine = automaton([], choice="none", reasoning="open", skip_reasoning=True)
    assert list(allowed(machine, vocabulary.size)) == [vocabulary.marks.tokens["</think>"]]


def test_two_sequences_have_independent_state(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    one = automaton([tools.WEATHER], choice="required")
    two = automaton([tools.WEATHER], choice="required")
    one.accept_tokens([vocabulary.marks.tokens["<tool_call>"]])
    assert two.state.phase is Phase.CONTENT
    assert list(allowed(two, vocabulary.size)) == [vocabulary.marks.tokens["<tool_call>"]]


def test_replayed_output_gives_the_same_masks(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    """Preemption rebuilds an automaton from its output: any prefix must give the same masks."""
    machine = automaton(tools.ALL, choice="auto", reasoning="may")
    tokens, _ = walk(machine, vocabulary, seed=3, limit=60)
    for at in range(0, len(tokens), 7):
        fresh: Any = automaton(tools.ALL, choice="auto", reasoning="may")
        assert fresh.accept_tokens(tokens[:at])
        machine.reset()
        for token in tokens[:at]:
            machine.accept_tokens([token])
        assert np.array_equal(allowed(fresh, vocabulary.size), allowed(machine, vocabulary.size))
