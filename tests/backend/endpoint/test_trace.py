"""Traces of a response's tokens: what the automaton of the engine decides, replayed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests import tools
from toolgate_backend.endpoint.trace import MAX_TRACES, Trace, Tracer
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.errors import BackendUnavailable
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource, TokenTrace

MakeAutomaton = Callable[..., Automaton]
CLOSERS = b'"}],'
SPECS: dict[str, dict[str, Any]] = {
    "required": {"choice": "required", "max_calls": 1},
    "auto with reasoning": {"choice": "auto", "reasoning": "must", "max_calls": 1},
    "no call": {"choice": "none"},
}


@pytest.fixture(scope="module")
def tracer(vocabulary: Vocabulary) -> Tracer:
    return Tracer(vocabulary)


def walk(
    machine: Automaton, vocabulary: Vocabulary, seed: int, limit: int = 80
) -> tuple[list[int], list[tuple[str, int]]]:
    """Random tokens that the masks allow, and for each its phase and the number of allowed
    tokens."""
    dice = random.Random(seed)
    closers = np.array([bool(b) and set(b) <= set(CLOSERS) for b in vocabulary.token_bytes])
    row = np.zeros(masks.words_per_row(vocabulary.size), dtype=np.int32)
    ids: list[int] = []
    seen: list[tuple[str, int]] = []
    while not machine.is_terminated() and len(ids) < limit:
        machine.fill_bitmask(row)
        allowed = masks.unpack(row)
        allowed = allowed[allowed < vocabulary.size]
        seen.append((machine.state.phase.name.lower(), len(allowed)))
        closing = allowed[closers[allowed]]
        token = int(dice.choice(closing if len(closing) and dice.random() < 0.5 else allowed))
        assert machine.accept_tokens([token])
        ids.append(token)
    return ids, seen


def sources(listed: list[dict[str, Any]]) -> list[GrammarSource]:
    return [
        GrammarSource(key=f"key of {tool.name}", name=tool.name, parameters=tool.parameters)
        for tool in parse_tools(listed)
    ]


async def traced(trace: Trace, ids: list[int], size: int, choice: int = 0) -> list[TokenTrace]:
    """`size`: tokens of one event."""
    found: list[TokenTrace] = []
    for at in range(0, len(ids), size):
        event = await trace.event(choice, ids[at : at + size])
        assert event.choice == choice
        found += event.tokens
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SPECS)
async def test_a_trace_has_the_masks_and_phases_of_the_engine(
    tracer: Tracer, automaton: MakeAutomaton, vocabulary: Vocabulary, name: str
) -> None:
    listed = [] if name == "no call" else [tools.WEATHER, tools.TAGS]
    given = sources(listed)
    spec = Spec(**SPECS[name], keys=tuple(source.key for source in given))
    kinds: set[str] = set()
    for seed in range(6):
        ids, seen = walk(automaton(listed, **SPECS[name]), vocabulary, seed)
        async with tracer.trace(spec, given) as trace:
            found = await traced(trace, ids, size=1 + seed)
        assert [(each.phase, each.allowed) for each in found] == seen
        assert [each.id for each in found] == ids
        assert [each.at for each in found] == [*range(len(ids))]
        assert all((each.kind == "forced") == (each.allowed == 1) for each in found)
        kinds |= {each.kind for each in found}
        free = {each.phase for each in found if each.kind == "free"}
        assert free <= {"thinking", "content"}
    if name == "required":
        assert kinds == {"forced", "masked"}
    else:
        assert "free" in kinds


async def test_a_continued_response_is_traced_from_its_place(
    tracer: Tracer, automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    given = sources([tools.WEATHER])
    spec = Spec(choice="required", max_calls=1, keys=(given[0].key,))
    ids, seen = walk(automaton([tools.WEATHER], choice="required", max_calls=1), vocabulary, 3)
    half = len(ids) // 2
    async with tracer.trace(replace(spec, accepted=tuple(ids[:half])), given) as trace:
        found = await traced(trace, ids[half:], size=4)
    assert [each.at for each in found] == [*range(half, len(ids))]
    assert [(each.phase, each.allowed) for each in found] == seen[half:]


async def test_choices_are_traced_apart(
    tracer: Tracer, automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    given = sources([tools.WEATHER])
    spec = Spec(choice="required", max_calls=1, keys=(given[0].key,))
    walks = [
        walk(automaton([tools.WEATHER], choice="required", max_calls=1), vocabulary, seed)
        for seed in range(2)
    ]
    async with tracer.trace(spec, given) as trace:
        results = await asyncio.gather(
            *(traced(trace, ids, 3, choice) for choice, (ids, _) in enumerate(walks))
        )
    for found, (_, seen) in zip(results, walks, strict=True):
        assert [(each.phase, each.allowed) for each in found] == seen


async def test_a_trace_ends_where_the_engine_ended_the_sequence_with_an_error(
    tracer: Tracer, vocabulary: Vocabulary
) -> None:
    given = sources([tools.WEATHER])
    spec = Spec(choice="required", keys=(given[0].key,))
    begin, failure = vocabulary.marks.tokens["<tool_call>"], vocabulary.marks.failure
    assert failure is not None
    async with tracer.trace(spec, given) as trace:
        event = await trace.event(0, [begin, failure, begin])
        assert [each.id for each in event.tokens] == [begin]
        assert (await trace.event(0, [begin])).tokens == ()


async def test_the_number_of_traced_responses_is_bounded(tracer: Tracer) -> None:
    spec = Spec(choice="none")
    held = [tracer.trace(spec, []) for _ in range(MAX_TRACES)]
    for each in held:
        await each.__aenter__()
    with pytest.raises(BackendUnavailable, match="already traced"):
        async with tracer.trace(spec, []):
            pass
    for each in held:
        await each.__aexit__(None, None, None)
    async with tracer.trace(spec, []):
        pass


async def test_grammars_are_released_with_their_last_trace(tracer: Tracer) -> None:
    given = sources([tools.TAGS])
    spec = Spec(choice="auto", keys=(given[0].key,))
    async with tracer.trace(spec, given), tracer.trace(spec, given):
        pass
    _, store = await tracer._parts()
    assert len(store) == 0
