"""A model that would write a number, or open values, for ever comes to the end of them."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tests.backend.grammars.graph.models import TEXT, model, parameters
from tests.support.grammars.graph_walks import graphs_of
from toolgate_backend.grammars.compiled_grammar import DIGITS
from toolgate_backend.grammars.graph.value_bounds import MAX_NESTING
from toolgate_backend.grammars.graph.value_places import AnyPlace, reader_of, value_of
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.units import units
from toolgate_core.grammar_key import CONTENT

BEGUN = {
    "qwen3": b'{"a": ',
    "gpt_oss": b'{"a": ',
    "qwen3_coder": b"<parameter=a>\n",
    "gemma4": b"{a:",
    "llama32_pythonic": b"(a=",
    "minimax_m3": b"<a>",
}
"""By dialect: the end of a call's text before the value of its argument."""
QUOTES = {"qwen3_coder": "", "gemma4": '<|"|>', "minimax_m3": ""}


def written(dialect: str, schema: dict[str, Any], text: bytes, name: str = "f") -> bytes:
    """The part of a text that masks allow after the text of `BEGUN`, in the longest tokens that
    they do. What comes before is taken from the masks where it is forced."""
    found = model(dialect)
    made = found.grammar(name, schema)
    graph = graphs_of(found).graph_of(made)
    texts, node, done = found.vocabulary.unit_bytes, graph.root, b""
    begun = b"" if name == CONTENT else BEGUN[dialect]
    while begun not in done:
        may = masks.unpack(graph.row(node).words).tolist()
        left = next(n for n in range(len(begun), -1, -1) if done.endswith(begun[:n]))
        wanted = [t for t in may if texts[t] and begun[left:].startswith(texts[t])]
        after = graph.step(node, max(wanted or may, key=lambda t: len(texts[t])))
        assert after is not None
        node, done = after, done + texts[max(wanted or may, key=lambda t: len(texts[t]))]
    at = 0
    while at < len(text):
        may = masks.unpack(graph.row(node).words).tolist()
        fitting = [t for t in may if texts[t] and text.startswith(texts[t], at)]
        if not fitting:
            break
        token = max(fitting, key=lambda t: len(texts[t]))
        after = graph.step(node, token)
        assert after is not None
        node, at = after, at + len(texts[token])
    return text[:at]


@pytest.mark.parametrize("dialect", BEGUN)
def test_numbers_end(dialect: str) -> None:
    for form, text in (
        ({"type": "number"}, b"9" * 60),
        ({"type": "number"}, b"0." + b"0" * 60),
        ({"type": "integer"}, b"-" + b"1" * 60),
    ):
        found = written(dialect, parameters(a=form), text)
        assert DIGITS <= len(re.findall(rb"\d+$", found)[0]) <= DIGITS + 1
    found = written(dialect, parameters(a={"type": "integer", "minimum": 10**30}), b"9" * 60)
    assert len(found) in (31, 32)


@pytest.mark.parametrize("dialect", BEGUN)
def test_strings_have_no_bounds(dialect: str) -> None:
    marks = model(dialect).vocabulary.form.marks
    quote = units(marks.encode(QUOTES.get(dialect, '"')), marks)
    for form in (TEXT, {"type": "string", "pattern": "^[0-9,\\[]+$"}):
        for text in (b"7" * 100, b"[" * 300):
            assert written(dialect, parameters(a=form), quote + text) == quote + text


@pytest.mark.parametrize("dialect", [each for each in BEGUN if each != "minimax_m3"])
def test_nesting_ends(dialect: str) -> None:
    found = written(dialect, parameters(a={}), b"[" * 300)
    assert MAX_NESTING - 4 <= len(found) <= MAX_NESTING


def test_nesting_of_formats_ends() -> None:
    for nested in (b'{"a": ', b'{"": [{"]": ', b'{"x\\"[": '):
        found = written("qwen3_coder", {"type": "object"}, nested * 300, CONTENT)
        assert found.count(b"{") + found.count(b"[") in range(MAX_NESTING, 2 * MAX_NESTING + 2)


@pytest.mark.parametrize("dialect", BEGUN)
def test_a_text_that_is_read_in_parts_has_the_same_place(dialect: str) -> None:
    form = model(dialect).vocabulary.form
    reader, rng = reader_of(form), random.Random(5)
    quote = units(form.marks.encode('<|"|>'), form.marks)
    namespace = units(form.marks.encode("]<]minimax[>["), form.marks)
    pieces = [b'"', b"'", b"\\", b"[", b"]", b"{", b"}", b"a1", b"1", b".5", b", ", b"<|", quote]
    pieces += [b"<parameter=a>", b"\n", b"<parameter=b>\n", b"\n</parameter>\n", b"</", quote[:2]]
    pieces += [namespace, namespace + b"<a>", namespace + b"</a>", b"<b>", b"<a", b">"]
    tags: Any = {b"a": "json", b"b": "text", b"c": "either"}
    for _ in range(400):
        parts = rng.choices(pieces, k=20)
        place: AnyPlace = reader.begin
        for count, part in enumerate(parts, 1):
            place = reader.after(place, part, tags)
            text = b"".join(parts[:count])
            assert value_of(place) == value_of(reader.after(reader.begin, text, tags)), text
