"""A call that repeats itself goes on with another token, and is cut if it repeats itself again."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.support.dialects.model import DialectModel, calls_in
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.token_limits import LEAST_REPEATS, repeats
from toolgate_backend.tokens import masks
from toolgate_core import grammar_key
from toolgate_core.deltas import Event, Finish
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import TEXT

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "to": {"type": "string"},
        "rows": {"type": "array", "items": {"type": "integer"}, "minItems": 3},
    },
    "required": ["text", "to", "rows"],
}
TOOL = {"type": "function", "function": {"name": "send", "parameters": PARAMETERS}}
LENGTH = 96
LIMIT = 3000


def test_only_whole_periods_up_to_the_end_count() -> None:
    period = [1, 2, 1, 3]
    looped = [9, *period * 30]
    assert repeats(looped, 100)
    assert repeats([7] * 100, 100)
    assert not repeats([7] * 99, 100)
    assert not repeats([*looped, 9], 100)
    assert not repeats([*looped[:60], 9, *looped[60:]], 100)
    assert not repeats([*range(LEAST_REPEATS), *range(LEAST_REPEATS)] * 100, 0)
    # Too few repeats of a long period.
    assert not repeats([*range(30)] * 10, 30 * (LEAST_REPEATS - 1))
    assert repeats([*range(30)] * 10, 30 * LEAST_REPEATS)


def model(dialect: str, marks: bool) -> DialectModel:
    tokens = mark_texts(DIALECTS[dialect]) if marks else ()
    return DialectModel(DIALECTS[dialect], tokens, [TOOL])


def allowed(machine: Automaton, found: DialectModel) -> list[int]:
    row = np.zeros((found.vocabulary.size + 31) // 32, dtype=np.int32)
    machine.fill_bitmask(row)
    return [int(token) for token in masks.unpack(row)]


def loop(machine: Automaton, found: DialectModel, liked: Sequence[bytes], seed: int) -> list[int]:
    """Tokens of a model that writes `liked` again and again wherever it may, and else anything."""
    rng, texts = random.Random(seed), found.vocabulary.token_bytes
    ids = {text: [token for token, other in enumerate(texts) if other == text] for text in liked}
    row = np.zeros((found.vocabulary.size + 31) // 32, dtype=np.int32)
    tokens: list[int] = []
    while len(tokens) < LIMIT and not machine.is_terminated():
        machine.fill_bitmask(row)
        wanted = [
            token
            for token in ids[liked[len(tokens) % len(liked)]]
            if row[token // 32] >> (token % 32) & 1
        ]
        token = wanted[0] if wanted else rng.choice(masks.unpack(row).tolist())
        assert machine.accept_tokens([token])
        tokens.append(token)
    return tokens


def written(machine: Automaton, found: DialectModel, text: bytes) -> bytes:
    """Accepts `text` in the longest tokens that are allowed, until it is not allowed."""
    at = 0
    while at < len(text):
        token = next_token(machine, found, text, at)
        if token is None:
            break
        assert machine.accept_tokens([token])
        at += len(found.vocabulary.token_bytes[token])
    return text[:at]


def next_token(machine: Automaton, found: DialectModel, text: bytes, at: int) -> int | None:
    row = np.zeros((found.vocabulary.size + 31) // 32, dtype=np.int32)
    machine.fill_bitmask(row)
    return found.longest(row, text, at)


def events_of(found: DialectModel, tokens: Sequence[int]) -> list[Event]:
    """The last token ended the response, as vLLM would say."""
    return found.segment(tokens, stop=tokens[-1], required=True)


BEGIN = b'<tool_call>\n{"name": "send", "arguments": {"text": "'
CUT = Finish("length", call="cut", repeats=True)


@pytest.mark.parametrize(
    ("dialect", "marks"), [("qwen3", True), ("qwen3_coder", False), ("gemma4", True)]
)
@pytest.mark.parametrize("liked", [(b"a",), (b"a", b"b", b"a")])
def test_calls_that_repeat_themselves_end_as_whole_or_as_cut(
    dialect: str, marks: bool, liked: tuple[bytes, ...]
) -> None:
    found = model(dialect, marks)
    machine = found.automaton(choice="required", repetition_tokens=LENGTH)
    cut = 0
    for seed in range(8):
        machine.reset()
        tokens = loop(machine, found, liked, seed)
        assert machine.is_terminated(), found.text(tokens)[-300:]
        *events, last = events_of(found, tokens)
        marked = tokens[-1] == found.vocabulary.marks.cut
        assert marked == (last == CUT)
        for _, call in calls_in(events)[: -1 if marked else None]:
            jsonschema.validate(json.loads(call), PARAMETERS)
        cut += marked
    assert cut


def test_only_the_token_that_repeats_itself_is_excluded_and_only_once() -> None:
    found = model("qwen3", True)
    machine = found.automaton(choice="required", repetition_tokens=LENGTH)
    written(machine, found, BEGIN)
    free = allowed(machine, found)
    [token] = [each for each in free if found.vocabulary.token_bytes[each] == b"a"]
    [other] = [each for each in free if found.vocabulary.token_bytes[each] == b"b"]
    while machine.accept_tokens([token]):
        assert len(machine.call_tokens) <= 2 * LENGTH
    assert allowed(machine, found) == [each for each in free if each != token]
    assert machine.accept_tokens([other])
    assert allowed(machine, found) == free
    while machine.accept_tokens([token]):
        assert len(machine.call_tokens) <= 4 * LENGTH
    assert allowed(machine, found) == [found.vocabulary.marks.cut]


def test_rolled_back_tokens_do_not_count() -> None:
    found = model("qwen3", True)
    machine = found.automaton(choice="required", repetition_tokens=LENGTH)
    written(machine, found, BEGIN)
    before = allowed(machine, found)
    [token] = [each for each in before if found.vocabulary.token_bytes[each] == b"a"]
    count = 0
    while machine.accept_tokens([token]):
        count += 1
    excluded = allowed(machine, found)
    machine.rollback(count)
    assert allowed(machine, found) == before
    for _ in range(count):
        assert token in allowed(machine, found)
        assert machine.accept_tokens([token])
    assert allowed(machine, found) == excluded
    assert token not in excluded


def test_text_of_a_format_that_repeats_itself_is_cut() -> None:
    found = model("qwen3", True)
    form = found.grammar(grammar_key.CONTENT, {TEXT: {"regex": "(ab )*c"}})
    spec = Spec("none", content="format", repetition_tokens=LENGTH)
    machine = Automaton(found.data, spec, [], form)
    assert len(written(machine, found, b"ab " * 300)) < 900
    assert allowed(machine, found) == [found.vocabulary.marks.cut]
    [last] = found.segment([found.vocabulary.marks.cut], stop=found.vocabulary.marks.cut)
    assert last == Finish("length", repeats=True)


@pytest.mark.exhaustive
def test_without_a_length_nothing_is_excluded() -> None:
    found = model("qwen3", True)
    machine = found.automaton(choice="required")
    written(machine, found, BEGIN)
    assert written(machine, found, b"ha" * 500) == b"ha" * 500
