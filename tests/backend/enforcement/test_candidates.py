"""Many tools at once: the look-up among their beginnings allows what their matchers would."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests import tools
from toolgate_backend.enforcement.candidates import CallPrefixes, Candidates
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.grammars.engines.engine import CompiledGrammar
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.tools import Tool, parse_tools

NAMES = ("get", "get_weather", "get_weather_now", "set", "s", "settings")
"""Beginnings of each other."""


def offered() -> list[dict[str, Any]]:
    schemas = (
        {"city": {"type": "string"}},
        {"city": {"type": "string", "maxLength": 4}},  # held by the other engine
        {},
    )
    return [
        tools.tool(name, schemas[at % len(schemas)], required=[]) for at, name in enumerate(NAMES)
    ]


@pytest.fixture(scope="module")
def grammars(compile_tool: Callable[[Tool], CompiledGrammar]) -> list[CompiledGrammar]:
    return [compile_tool(tool) for tool in parse_tools(offered())]


def by_matchers(
    grammars: list[CompiledGrammar], tokens: list[int], vocabulary: Vocabulary
) -> set[int]:
    """The OR of the masks of all matchers that take `tokens`, less the special tokens."""
    found: set[int] = set()
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    for grammar in grammars:
        matcher = grammar.matcher()
        if all(matcher.accept(token) for token in tokens) and not matcher.finished:
            matcher.fill(row)
            found |= set(masks.unpack(row).tolist())
    return found - vocabulary.special


def hold(
    now: set[int], grammars: list[CompiledGrammar], tokens: list[int], vocabulary: Vocabulary
) -> None:
    """`now` is what the matchers' masks say. Where text is forced, llguidance's mask has one way to
    spell it only; its matcher takes all ways, and so do we."""
    expected = by_matchers(grammars, tokens, vocabulary)
    assert expected <= now
    for token in now - expected:
        matchers = [grammar.matcher() for grammar in grammars]
        assert any(all(map(matcher.accept, [*tokens, token])) for matcher in matchers)


def begun(model_data: ModelData, grammars: list[CompiledGrammar]) -> Candidates:
    """The candidates after the mark that begins a call."""
    trigger = model_data.texts.trigger
    assert trigger is not None
    return model_data.first_calls(grammars, "").begun(trigger.text)


def after(candidates: Candidates, tokens: Sequence[int]) -> Candidates:
    """The candidates after tokens that some of them accept."""
    for token in tokens:
        following = candidates.after(token)
        assert following is not None
        candidates = following
    return candidates


def allowed(candidates: Candidates, vocabulary: Vocabulary) -> set[int]:
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    masks.render(candidates.mask(), row, vocabulary.size)
    return set(masks.unpack(row).tolist())


@pytest.mark.parametrize("seed", range(6))
def test_the_mask_equals_the_union_of_the_matchers_at_every_step(
    model_data: ModelData, grammars: list[CompiledGrammar], vocabulary: Vocabulary, seed: int
) -> None:
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


@pytest.mark.parametrize("seed", range(4))
def test_earlier_candidates_have_their_masks_still(
    model_data: ModelData, grammars: list[CompiledGrammar], vocabulary: Vocabulary, seed: int
) -> None:
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


def test_forced_text_is_the_common_prefix_of_all_candidates(
    model_data: ModelData, grammars: list[CompiledGrammar], vocabulary: Vocabulary
) -> None:
    candidates = begun(model_data, grammars[:3])
    assert candidates.grammars == grammars[:3]
    assert candidates.forced() == b'\n{"name": "get'
    candidates = after(candidates, vocabulary.encode('\n{"name": "get_weather'))
    assert candidates.grammars == grammars[1:3]
    assert candidates.forced() == b""
    candidates = after(candidates, vocabulary.encode('"'))
    assert candidates.grammars == grammars[1:2]
    assert b'"arguments": {' in candidates.forced()


def test_prepared_prefixes_are_not_recomputed_during_a_step(
    model_data: ModelData,
    grammars: list[CompiledGrammar],
    vocabulary: Vocabulary,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered = grammars[1:5]  # a set that no other test has
    model_data.prepare_prefixes(offered)
    model_data.prepare_prefixes([])
    monkeypatch.setattr(CallPrefixes, "_position", None)
    candidates = begun(model_data, offered)
    assert candidates.forced() == b'\n{"name": "'
    assert candidates.grammars == offered


def test_forced_special_token_text_is_spelt_in_ordinary_tokens(
    model_data: ModelData,
    compile_tool: Callable[[Tool], CompiledGrammar],
    vocabulary: Vocabulary,
) -> None:
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
