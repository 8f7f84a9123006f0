"""Traces of a response's tokens: what the automaton of the engine decides, replayed."""

import asyncio
import random
from dataclasses import replace

import pytest

from tests import tools
from tests.support.walker.walk import Enforced, Liking, walk
from toolgate_backend.endpoint.trace import MAX_TRACES, Tracer
from toolgate_backend.enforcement.spec import Spec
from toolgate_core.errors import BackendUnavailable
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource

# --- trace ---
CLOSERS = b'"}],'
SPECS = {
    "required": {"choice": "required", "max_calls": 1},
    "auto with reasoning": {"choice": "auto", "reasoning": "must", "max_calls": 1},
    "no call": {"choice": "none"},
}


@pytest.fixture(scope="module")
def tracer(vocabulary):
    return Tracer(vocabulary)


def walked(machine, vocabulary, seed, limit=80):
    """Random tokens that the masks allow, and for each its phase and the number of allowed
    tokens."""
    source, seen = Enforced(machine, vocabulary.size), []
    closers = (bool(text) and {*text} <= {*CLOSERS} for text in vocabulary.token_bytes)

    def see(allowed):
        seen.append((machine.state.phase.name.lower(), int((allowed < vocabulary.size).sum())))

    walk(source, Liking(closers, random.Random(seed), 0.5), limit, see)
    return source.tokens, seen


def sources(listed):
    return [
        GrammarSource(key=f"key of {tool.name}", name=tool.name, parameters=tool.parameters)
        for tool in parse_tools(listed)
    ]


async def traced(trace, ids, size, choice=0):
    """`size`: tokens of one event."""
    found = []
    for at in range(0, len(ids), size):
        event = await trace.event(choice, ids[at : at + size])
        assert event.choice == choice
        found += event.tokens
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SPECS)
async def test_a_trace_has_the_masks_and_phases_of_the_engine(tracer, automaton, vocabulary, name):
    listed = [] if name == "no call" else [tools.WEATHER, tools.TAGS]
    given = sources(listed)
    spec = Spec(**SPECS[name], keys=tuple(source.key for source in given))
    kinds = set()
    for seed in range(6):
        ids, seen = walked(automaton(listed, **SPECS[name]), vocabulary, seed)
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


async def test_a_continued_response_is_traced_from_its_place(tracer, automaton, vocabulary):
    given = sources([tools.WEATHER])
    spec = Spec(choice="required", max_calls=1, keys=(given[0].key,))
    ids, seen = walked(automaton([tools.WEATHER], choice="required", max_calls=1), vocabulary, 3)
    half = len(ids) // 2
    async with tracer.trace(replace(spec, accepted=tuple(ids[:half])), given) as trace:
        found = await traced(trace, ids[half:], size=4)
    assert [each.at for each in found] == [*range(half, len(ids))]
    assert [(each.phase, each.allowed) for each in found] == seen[half:]


async def test_choices_are_traced_apart(tracer, automaton, vocabulary):
    given = sources([tools.WEATHER])
    spec = Spec(choice="required", max_calls=1, keys=(given[0].key,))
    walks = [
        walked(automaton([tools.WEATHER], choice="required", max_calls=1), vocabulary, seed)
        for seed in range(2)
    ]
    async with tracer.trace(spec, given) as trace:
        results = await asyncio.gather(
            *(traced(trace, ids, 3, choice) for choice, (ids, _) in enumerate(walks))
        )
    for found, (_, seen) in zip(results, walks, strict=True):
        assert [(each.phase, each.allowed) for each in found] == seen


async def test_a_trace_ends_where_the_engine_ended_the_sequence_with_an_error(tracer, vocabulary):
    given = sources([tools.WEATHER])
    spec = Spec(choice="required", keys=(given[0].key,))
    begin, failure = vocabulary.marks.tokens["<tool_call>"], vocabulary.marks.failure
    assert failure is not None
    async with tracer.trace(spec, given) as trace:
        event = await trace.event(0, [begin, failure, begin])
        assert [each.id for each in event.tokens] == [begin]
        assert (await trace.event(0, [begin])).tokens == ()


async def test_the_number_of_traced_responses_is_bounded(tracer):
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


async def test_grammars_are_released_with_their_last_trace(tracer):
    given = sources([tools.TAGS])
    spec = Spec(choice="auto", keys=(given[0].key,))
    async with tracer.trace(spec, given), tracer.trace(spec, given):
        pass
    _, store = await tracer._parts()
    assert len(store) == 0
