"""Calls of a model that repeats itself for ever end, are valid, and are marked."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.support.dialects.model import DialectModel
from tests.support.dialects.tool_calls import calls_in
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.closing import LEAST_REPEATS, repeats
from toolgate_backend.enforcement.spec import Spec
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
    """Accepts `text` in the longest tokens that are allowed, until something is forced."""
    at = 0
    row = np.zeros((found.vocabulary.size + 31) // 32, dtype=np.int32)
    while at < len(text) and not machine.state.forced:
        machine.fill_bitmask(row)
        token = found.longest(row, text, at)
        assert token is not None
        assert machine.accept_tokens([token])
        at += len(found.vocabulary.token_bytes[token])
    return text[:at]


def accept_forced(machine: Automaton) -> None:
    while machine.state.forced:
        assert machine.accept_tokens(machine.state.forced[:1])


def events_of(found: DialectModel, tokens: Sequence[int]) -> list[Event]:
    """The last token ended the response, as vLLM would say."""
    return found.segment(tokens, stop=tokens[-1], required=True)


@pytest.mark.parametrize(
    ("dialect", "marks"), [("qwen3", True), ("qwen3_coder", False), ("gemma4", True)]
)
@pytest.mark.parametrize("liked", [(b"a",), (b"a", b"b", b"a")])
def test_calls_that_repeat_themselves_are_closed(
    dialect: str, marks: bool, liked: tuple[bytes, ...]
) -> None:
    found = model(dialect, marks)
    machine = found.automaton(choice="required", repetition_tokens=LENGTH)
    closed = 0
    for seed in range(8):
        machine.reset()
        tokens = loop(machine, found, liked, seed)
        assert machine.is_terminated(), found.text(tokens)[-300:]
        events = events_of(found, tokens)
        for _, call in calls_in(events):
            jsonschema.validate(json.loads(call), PARAMETERS)
        marked = tokens[-1] == found.vocabulary.marks.closed
        assert marked == (events[-1] == Finish("length", call="closed"))
        closed += marked
    assert closed


def test_the_string_is_closed_and_the_rest_of_the_call_is_free() -> None:
    found = model("qwen3", True)
    machine = found.automaton(choice="required", repetition_tokens=LENGTH, max_calls=1)
    written(machine, found, b'<tool_call>\n{"name": "send", "arguments": {"text": "')
    written(machine, found, b"ha" * 300)
    assert machine.state.closing
    assert allowed(machine, found) == list(machine.state.forced[:1])
    end = b"".join(found.vocabulary.token_bytes[token] for token in machine.state.forced)
    assert end.startswith(b'"')  # its last token may begin what must follow
    accept_forced(machine)
    written(machine, found, b', "to": "b", "rows": [1, 2, 3]}}\n'.removeprefix(end[1:]))
    accept_forced(machine)
    assert allowed(machine, found) == [found.vocabulary.marks.closed]


def test_an_array_that_repeats_its_items_ends_the_call() -> None:
    found = model("qwen3", True)
    machine = found.automaton(choice="required", repetition_tokens=LENGTH)
    begun = b'<tool_call>\n{"name": "send", "arguments": {"rows": ['
    begun += written(machine, found, begun + b"0, " * 300)[len(begun) :]
    forced = list(machine.state.forced)
    rest = b"".join(found.vocabulary.token_bytes[token] for token in forced)
    call = json.loads((begun + rest).partition(b"\n")[2])["arguments"]
    jsonschema.validate(call, PARAMETERS)
    assert (call["text"], call["to"]) == ("", "")
    accept_forced(machine)
    assert allowed(machine, found) == [found.vocabulary.marks.closed]


def test_rolled_back_tokens_do_not_count() -> None:
    found = model("qwen3", True)
    machine = found.automaton(choice="required", repetition_tokens=LENGTH)
    written(machine, found, b'<tool_call>\n{"name": "send", "arguments": {"text": "')
    (token,) = [
        each for each in allowed(machine, found) if found.vocabulary.token_bytes[each] == b"a"
    ]
    count = 0
    while not machine.state.closing:
        assert machine.accept_tokens([token])
        count += 1
    other = allowed(machine, found)
    machine.rollback(count)
    assert not machine.state.closing
    for _ in range(count - 1):
        assert machine.accept_tokens([token])
    assert not machine.state.closing
    assert machine.accept_tokens([token])
    assert allowed(machine, found) == other


def test_text_of_a_format_that_repeats_itself_is_closed() -> None:
    found = model("qwen3", True)
    form = found.grammar(grammar_key.CONTENT, {TEXT: {"regex": "(ab )*c"}})
    spec = Spec("none", content="format", repetition_tokens=LENGTH)
    machine = Automaton(found.data, spec, [], form)
    written(machine, found, b"ab " * 300)
    assert machine.state.closing
    accept_forced(machine)
    assert allowed(machine, found) == [found.vocabulary.marks.closed]


@pytest.mark.exhaustive
def test_without_a_length_nothing_is_closed() -> None:
    found = model("qwen3", True)
    machine = found.automaton(choice="required")
    written(machine, found, b'<tool_call>\n{"name": "send", "arguments": {"text": "')
    written(machine, found, b"ha" * 500)
    assert not machine.state.closing
