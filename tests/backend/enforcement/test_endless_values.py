"""A model that would write a number, or open values, for ever comes to the end of them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import jsonschema_rs
import numpy as np
import pytest

from tests.support.dialects.model import DialectModel, calls_in
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.grammars.compiled_grammar import DIGITS, EXPONENT_DIGITS, limits_of
from toolgate_backend.grammars.graph.value_bounds import MAX_NESTING
from toolgate_backend.tokens import masks
from toolgate_core.deltas import ContentDelta, Event, Finish
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import TEXT

CODECS = {
    "qwen3": True,
    "qwen3_coder": False,
    "deepseek_v32": False,
    "gemma4": True,
    "kimi_k3": True,
    "gpt_oss": True,
    "minimax_m3": True,
    "llama32_pythonic": False,
    "glm45": True,
}
"""Dialects with each codec, and whether their marks are tokens."""
NUMBERS: dict[str, Any] = {
    "any": {"type": "number"},
    "whole": {"type": "integer"},
    "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "positive": {"type": "number", "minimum": 0},
    "low": {"type": "integer", "maximum": -5},
    "sevens": {"type": "integer", "multipleOf": 7, "minimum": 0},
    "cents": {"type": "number", "multipleOf": 0.01, "minimum": 0},
    "maybe": {"type": ["number", "null"]},
    "list": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
}
XGRAMMAR = ("any", "whole", "positive", "low")
"""Those that xgrammar compiles."""
LIMIT = 4000
BEGUN = {
    "qwen3": b'<tool_call>\n{"name": "send", "arguments": {"a":',
    "qwen3_coder": b"<tool_call>\n<function=send>\n<parameter=a>\n",
    "gemma4": b"<|tool_call>call:send{a:",
    "llama32_pythonic": b"[send(a=",
    "minimax_m3": b']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="send">]<]minimax[>[<a>',
}
"""By dialect, one for each codec: a call up to the value of its argument."""
SPACES = {"qwen3": b" "}
QUOTES = {"qwen3_coder": b"", "gemma4": b'<|"|>', "minimax_m3": b""}
NESTED = {("gemma4", b'{"a": '): b"{a:"}


def parameters(*names: str) -> dict[str, Any]:
    properties = {name: NUMBERS[name] for name in names or NUMBERS}
    return {"type": "object", "properties": properties, "required": [*properties]}


def tool(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "send", "parameters": schema}}


@cache
def model(dialect: str) -> DialectModel:
    tokens = mark_texts(DIALECTS[dialect]) if CODECS[dialect] else ()
    return DialectModel(DIALECTS[dialect], tokens, [tool(parameters())])


def hostile(
    machine: Automaton, found: DialectModel, liked: Callable[[bytes], bool], seed: int = 0
) -> list[int]:
    """The tokens of a model that writes what is `liked` wherever it may, and else anything."""
    rng = random.Random(seed)
    likes = np.array([*map(liked, found.vocabulary.token_bytes)])
    row = np.zeros((found.vocabulary.size + 31) // 32, dtype=np.int32)
    tokens: list[int] = []
    while len(tokens) < LIMIT and not machine.is_terminated():
        machine.fill_bitmask(row)
        may = masks.unpack(row)
        wanted = may[likes[may]]
        token = int(rng.choice(wanted if len(wanted) else may))
        assert machine.accept_tokens([token])
        tokens.append(token)
    assert machine.is_terminated(), found.text(tokens)[:1500]
    return tokens


def begun(dialect: str, schema: dict[str, Any]) -> tuple[DialectModel, Automaton]:
    """A call up to the value of its argument."""
    tokens = mark_texts(DIALECTS[dialect]) if CODECS[dialect] else ()
    found = DialectModel(DIALECTS[dialect], tokens, [tool(schema)])
    machine = found.automaton(choice="required", max_calls=1)
    assert write(machine, found, BEGUN[dialect]) == BEGUN[dialect]
    return found, machine


def write(machine: Automaton, found: DialectModel, text: bytes) -> bytes:
    """The part of a text that masks allow, in the longest tokens that they do."""
    texts, at = found.vocabulary.token_bytes, 0
    row = np.zeros((found.vocabulary.size + 31) // 32, dtype=np.int32)
    while at < len(text):
        machine.fill_bitmask(row)
        token = found.longest(row, text, at)
        if token is None:
            break
        assert machine.accept_tokens([token])
        at += len(texts[token])
    return text[:at]


def digits(first: bytes) -> Callable[[bytes], bool]:
    return lambda text: text.isdigit() and text.startswith(first)


def arguments(found: DialectModel, tokens: list[int], schema: dict[str, Any]) -> str:
    ((_, text),) = calls_in(found.segment(tokens, required=True, schemas={"send": schema}))
    return text


def content(events: list[Event]) -> str:
    return "".join(each.text for each in events if isinstance(each, ContentDelta))


def assert_short(text: str, most: int = DIGITS) -> None:
    for number in re.findall(r"\d[\d.eE+-]*", text):
        integer, fraction, exponent = re.fullmatch(  # type: ignore[union-attr]
            r"(\d+)(?:\.(\d+))?(?:[eE][+-]?(\d+))?", number
        ).groups("")
        assert len(integer) <= most
        assert len(fraction) <= most + 1  # the last digit of a positive number is not zero
        assert len(exponent) <= EXPONENT_DIGITS


@pytest.mark.parametrize("first", [b"", b"0", b"9"])
@pytest.mark.parametrize("dialect", CODECS)
def test_numbers_of_calls_end(dialect: str, first: bytes) -> None:
    found = model(dialect)
    machine = found.automaton(choice="required", max_calls=1)
    tokens = hostile(machine, found, digits(first))
    text = arguments(found, tokens, parameters())
    assert jsonschema_rs.is_valid(parameters(), json.loads(text, parse_float=Decimal))
    assert_short(text)


@pytest.mark.parametrize("first", [b"", b"0", b"9"])
@pytest.mark.parametrize("names", [XGRAMMAR, tuple(NUMBERS)])
def test_numbers_of_formats_end(names: tuple[str, ...], first: bytes) -> None:
    found, schema = model("qwen3_coder"), parameters(*names)
    machine = found.automaton(schema, choice="none")
    text = content(found.segment(hostile(machine, found, digits(first))))
    assert jsonschema_rs.is_valid(schema, json.loads(text, parse_float=Decimal))
    assert_short(text)


@pytest.mark.parametrize("dialect", BEGUN)
def test_the_numbers_that_a_schema_names_may_be_longer(dialect: str) -> None:
    named = {"type": "integer", "minimum": 10**30}
    schema = {"type": "object", "properties": {"a": named}, "required": ["a"]}
    found, machine = begun(dialect, schema)
    space = SPACES.get(dialect, b"")
    assert write(machine, found, space + b"9" * 40) in (space + b"9" * 31, space + b"9" * 32)
    schema["properties"] = {"a": {"type": "string", "pattern": "^[0-9]{50}$"}}
    found, machine = begun(dialect, schema)
    quote = QUOTES.get(dialect, b'"')
    text = space + quote + b"9" * 50
    assert write(machine, found, text + b"9" * 10) == text


def test_every_double_and_64_bit_integer_may_be_written() -> None:
    found = model("qwen3")
    for value in (5e-324, 1.7976931348623157e308, -2.2250738585072014e-308, 0.1 + 0.2, 2**64 - 1):
        written = json.dumps(value)
        plain = format(Decimal(written), "f") if 1e-6 < abs(value) < 1e21 else written
        for text in {written, plain}:
            machine = found.automaton({"type": "object"}, choice="none")
            whole = f'{{"a": {text}}}'
            for token in found.vocabulary.encode(whole):
                row = np.zeros((found.vocabulary.size + 31) // 32, dtype=np.int32)
                machine.fill_bitmask(row)
                assert row[token // 32] >> (token % 32) & 1, (whole, token)
                assert machine.accept_tokens([token])


@pytest.mark.parametrize("dialect", BEGUN)
def test_digits_in_strings_have_no_bound(dialect: str) -> None:
    for form in ({"pattern": "^[0-9]+,[0-9]+$"}, {"pattern": "^[0-9]+$"}, {}):
        schema = {"type": "object", "properties": {"a": {"type": "string", **form}}}
        found, machine = begun(dialect, schema)
        text = SPACES.get(dialect, b"") + QUOTES.get(dialect, b'"') + b"7" * 100
        assert write(machine, found, text) == text


@pytest.mark.parametrize("dialect", BEGUN)
def test_brackets_in_strings_have_no_bound(dialect: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}}
    found, machine = begun(dialect, schema)
    text = SPACES.get(dialect, b"") + QUOTES.get(dialect, b'"') + b"[{" * 300
    assert write(machine, found, text) == text


@pytest.mark.parametrize("nested", [b"[", b'{"a": '])
@pytest.mark.parametrize("dialect", BEGUN)
def test_nesting_ends(dialect: str, nested: bytes) -> None:
    found, machine = begun(dialect, {"type": "object", "properties": {"a": {}}, "required": ["a"]})
    nested = NESTED.get((dialect, nested), nested)
    if dialect != "minimax_m3":  # the schema allows no undeclared members there
        written = write(machine, found, SPACES.get(dialect, b"") + nested * 200)
        assert MAX_NESTING - 4 <= len(written) // len(nested) <= MAX_NESTING
        assert closed(machine, found)


@pytest.mark.parametrize("nested", [b"[", b'{"a": ', b'{"": [{"]": '])
def test_nesting_of_formats_ends(nested: bytes) -> None:
    found = model("qwen3_coder")
    machine = found.automaton({"type": "object"}, choice="none")
    written = write(machine, found, b'{"a": ' + nested * 200)
    assert written.count(b"{") + written.count(b"[") <= MAX_NESTING + 1
    assert len(written) > MAX_NESTING
    assert closed(machine, found)


def closed(machine: Automaton, found: DialectModel) -> bool:
    """Whether a text ends that closes what it can."""
    ends = [b'"', b"'", b"]", b"}", b"1", b"\n", b"<", b">", b")"]
    ranks = np.array(
        [ends.index(t) if t in ends else len(ends) for t in found.vocabulary.token_bytes]
    )
    row = np.zeros((found.vocabulary.size + 31) // 32, dtype=np.int32)
    for _ in range(1000):
        if machine.is_terminated():
            return True
        machine.fill_bitmask(row)
        may = masks.unpack(row)
        assert machine.accept_tokens([int(may[np.argmin(ranks[may])])])
    return False


def test_bounds_hold_after_a_rollback() -> None:
    found = model("qwen3")
    form = {"type": "number"}
    machine = found.automaton(form, choice="none")
    seven = found.vocabulary.encode("7")
    row = np.zeros((found.vocabulary.size + 31) // 32, dtype=np.int32)

    def may_go_on() -> bool:
        machine.fill_bitmask(row)
        return bool(row[seven[0] // 32] >> (seven[0] % 32) & 1)

    assert machine.accept_tokens(seven * DIGITS)
    assert not may_go_on()
    machine.rollback(3)
    assert may_go_on()
    assert machine.accept_tokens(seven * 2)
    assert may_go_on()
    assert machine.accept_tokens(seven)
    assert not may_go_on()
    machine.rollback(1)
    assert machine.accept_tokens(found.vocabulary.encode("."))
    assert may_go_on()


def test_grammars_of_text_have_no_limits() -> None:
    found = model("qwen3")
    machine = found.automaton({"type": "object"}, choice="none")
    assert machine.state.candidates is not None
    (grammar,) = machine.state.candidates.grammars
    assert grammar.limits is not None
    assert limits_of(grammar.compiled, {TEXT: {"regex": "[0-9]+"}}) is None


@pytest.mark.parametrize("dialect", ["qwen3", "gpt_oss", "gemma4"])
def test_content_that_repeats_itself_is_closed(dialect: str) -> None:
    found = DialectModel(DIALECTS[dialect], mark_texts(DIALECTS[dialect]), [])
    row = {"type": "array", "items": {"type": "integer"}}
    properties = {"a": {"type": "string"}, "b": row}
    schema = {"type": "object", "properties": properties, "required": ["a", "b"]}
    machine = found.automaton(schema, choice="none", repetition_tokens=96)
    texts, words = found.vocabulary.token_bytes, (found.vocabulary.size + 31) // 32
    mask, tokens = np.zeros(words, dtype=np.int32), list[int]()
    liked = {True: b'{"a": "' + b"ha" * 1000, False: b', "b": [' + b"0, " * 1000}
    begun, at = True, 0
    while not machine.is_terminated():
        machine.fill_bitmask(mask)
        wanted = found.longest(mask, liked[begun], at)
        token = int(masks.unpack(mask)[0]) if wanted is None else wanted
        if wanted is not None:
            at += len(texts[token])
        elif begun and at > 100:
            begun, at = False, 0
        assert machine.accept_tokens([token])
        tokens.append(token)
    assert tokens[-1] == found.vocabulary.marks.cut
    events = found.segment(tokens, stop=tokens[-1])
    assert events[-1] == Finish("length", repeats=True)
    assert content(events).startswith('{"a": "haha')
    assert len(tokens) < 600
