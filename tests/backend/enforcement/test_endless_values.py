"""A model that would write a value, or the same text, for ever comes to the end of it."""

import json
import random
import re
from decimal import Decimal
from functools import cache
from math import isfinite

import jsonschema
import jsonschema_rs
import numpy as np
import pytest

from tests.support.dialects.model import DialectModel, calls_in
from tests.support.effort import sampled
from tests.support.walker.walk import Enforced, Liking, mask_of, walk
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.token_limits import LEAST_REPEATS, repeats
from toolgate_backend.grammars.compiled_grammar import DIGITS, EXPONENT_DIGITS, limits_of
from toolgate_backend.grammars.graph.value_bounds import MAX_NESTING
from toolgate_backend.tokens import masks
from toolgate_core import grammar_key
from toolgate_core.deltas import ContentDelta, Finish
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import TEXT

# --- endless values ---
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
NUMBERS = {
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


def parameters(*names):
    properties = {name: NUMBERS[name] for name in names or NUMBERS}
    return {"type": "object", "properties": properties, "required": [*properties]}


def tool(schema):
    return {"type": "function", "function": {"name": "send", "parameters": schema}}


@cache
def model(dialect):
    tokens = mark_texts(DIALECTS[dialect]) if CODECS[dialect] else ()
    return DialectModel(DIALECTS[dialect], tokens, [tool(parameters())])


def hostile(machine, found, liked, seed=0):
    """The tokens of a model that writes what is `liked` wherever it may, and else anything."""
    source = Enforced(machine, found.vocabulary.size)
    choose = Liking(map(liked, found.vocabulary.token_bytes), random.Random(seed))
    assert walk(source, choose, LIMIT), found.text(source.tokens)[:1500]
    return source.tokens


def begun(dialect, schema):
    """A call up to the value of its argument."""
    tokens = mark_texts(DIALECTS[dialect]) if CODECS[dialect] else ()
    found = DialectModel(DIALECTS[dialect], tokens, [tool(schema)])
    machine = found.automaton(choice="required", max_calls=1)
    assert write(machine, found, BEGUN[dialect]) == BEGUN[dialect]
    return found, machine


def write(machine, found, text):
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


def digits(first):
    return lambda text: text.isdigit() and text.startswith(first)


def arguments(found, tokens, schema):
    ((_, text),) = calls_in(found.segment(tokens, required=True, schemas={"send": schema}))
    return text


def content(events):
    return "".join(each.text for each in events if isinstance(each, ContentDelta))


def assert_short(text, most=DIGITS):
    for number in re.findall(r"\d[\d.eE+-]*", text):
        integer, fraction, exponent = re.fullmatch(
            r"(\d+)(?:\.(\d+))?(?:[eE][+-]?(\d+))?", number
        ).groups("")
        assert len(integer) <= most
        assert len(fraction) <= most + 1  # the last digit of a positive number is not zero
        assert len(exponent) <= EXPONENT_DIGITS
        assert isfinite(float(number))


@sampled("dialect, first", CODECS, [b"", b"0", b"9"], one_in=5)
def test_numbers_of_calls_end(dialect, first):
    found = model(dialect)
    machine = found.automaton(choice="required", max_calls=1)
    tokens = hostile(machine, found, digits(first))
    text = arguments(found, tokens, parameters())
    assert jsonschema_rs.is_valid(parameters(), json.loads(text, parse_float=Decimal))
    assert_short(text)


@sampled("names, first", [XGRAMMAR, tuple(NUMBERS)], [b"", b"0", b"9"], one_in=2)
def test_numbers_of_formats_end(names, first):
    found, schema = model("qwen3_coder"), parameters(*names)
    machine = found.automaton(schema, choice="none")
    text = content(found.segment(hostile(machine, found, digits(first))))
    assert jsonschema_rs.is_valid(schema, json.loads(text, parse_float=Decimal))
    assert_short(text)


@pytest.mark.parametrize("dialect", BEGUN)
def test_the_numbers_that_a_schema_names_may_be_longer(dialect):
    named = {"type": "integer", "minimum": 10**30}
    schema = {"type": "object", "properties": {"a": named}, "required": ["a"]}
    found, machine = begun(dialect, schema)
    space = SPACES.get(dialect, b"")
    assert write(machine, found, space + b"9" * 40) in (space + b"9" * 31, space + b"9" * 32)


def test_every_double_and_64_bit_integer_may_be_written():
    found = model("qwen3")
    for value in (5e-324, 1.7976931348623157e308, -2.2250738585072014e-308, 0.1 + 0.2, 2**64 - 1):
        written = json.dumps(value)
        plain = format(Decimal(written), "f") if 1e-6 < abs(value) < 1e21 else written
        for text in {written, plain}:
            machine = found.automaton({"type": "object"}, choice="none")
            whole = f'{{"a": {text}}}'
            for token in found.vocabulary.encode(whole):
                assert token in mask_of(machine, found.vocabulary.size), (whole, token)
                assert machine.accept_tokens([token])


@pytest.mark.parametrize(
    ("text", "written"),
    [(b"6e666", b"6e66"), (b"-9e308", b"-9e30"), (b"1.7e308", b"1.7e308"), (b"10e308", b"10e30")],
)
def test_no_number_is_infinite_in_double_precision(text, written):
    machine = (found := model("qwen3")).automaton({"type": "object"}, choice="none")
    assert write(machine, found, b'{"a": ' + text) == b'{"a": ' + written


STRINGS = [
    ({"pattern": "^[0-9]+,[0-9]+$"}, b"7" * 100, b""),
    ({"pattern": "^[0-9]+$"}, b"7" * 100, b""),
    ({"pattern": "^[0-9]{50}$"}, b"9" * 50, b"9" * 10),
    ({}, b"7" * 100, b""),
    ({}, b"[{" * 300, b""),
]
"""What a string must be, the beginning of one, and what may not follow."""


@sampled("dialect, string", BEGUN, STRINGS, one_in=2)
def test_digits_and_brackets_in_strings_have_no_bound(dialect, string):
    form, text, refused = string
    properties = {"a": {"type": "string", **form}, "b": {}}
    found, machine = begun(dialect, {"type": "object", "properties": properties})
    text = SPACES.get(dialect, b"") + QUOTES.get(dialect, b'"') + text
    assert write(machine, found, text + refused) == text


@sampled("dialect, nested", BEGUN, [b"[", b'{"a": '], one_in=2)
def test_nesting_ends(dialect, nested):
    found, machine = begun(dialect, {"type": "object", "properties": {"a": {}}, "required": ["a"]})
    nested = NESTED.get((dialect, nested), nested)
    if dialect != "minimax_m3":  # the schema allows no undeclared members there
        written = write(machine, found, SPACES.get(dialect, b"") + nested * 200)
        assert MAX_NESTING - 4 <= len(written) // len(nested) <= MAX_NESTING
        assert closed(machine, found)


@pytest.mark.parametrize("nested", [b"[", b'{"a": ', b'{"": [{"]": ', b'{"x\\"[": '])
def test_nesting_of_formats_ends(nested):
    found = model("qwen3_coder")
    machine = found.automaton({"type": "object"}, choice="none")
    written = write(machine, found, b'{"a": ' + nested * 200)
    opened = re.sub(rb'"(\\.|[^"\\])*"?', b"", written)
    assert opened.count(b"{") + opened.count(b"[") <= MAX_NESTING + 1
    assert len(written) > MAX_NESTING
    assert closed(machine, found)


def closed(machine, found):
    """Whether a text ends that closes what it can."""
    ends = [b'"', b"'", b"]", b"}", b"1", b"\n", b"<", b">", b")"]
    ranks = np.array(
        [ends.index(t) if t in ends else len(ends) for t in found.vocabulary.token_bytes]
    )
    source = Enforced(machine, found.vocabulary.size)
    return walk(source, lambda may: int(may[np.argmin(ranks[may])]), 1000)


def test_bounds_hold_after_a_rollback():
    found = model("qwen3")
    form = {"type": "number"}
    machine = found.automaton(form, choice="none")
    seven = found.vocabulary.encode("7")

    def may_go_on():
        return seven[0] in mask_of(machine, found.vocabulary.size)

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


def test_grammars_of_text_have_no_limits():
    found = model("qwen3")
    machine = found.automaton({"type": "object"}, choice="none")
    assert machine.state.candidates is not None
    (grammar,) = machine.state.candidates.grammars
    assert grammar.limits is not None
    assert limits_of({TEXT: {"regex": "[0-9]+"}}) is None


@pytest.mark.parametrize("dialect", ["qwen3", "gpt_oss", "gemma4"])
def test_content_that_repeats_itself_is_closed(dialect):
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


# --- repetition ---
PARAMETERS = {
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


def test_only_whole_periods_up_to_the_end_count():
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


def sender(dialect, marks):
    tokens = mark_texts(DIALECTS[dialect]) if marks else ()
    return DialectModel(DIALECTS[dialect], tokens, [TOOL])


def allowed(machine, found):
    return mask_of(machine, found.vocabulary.size).tolist()


def loop(machine, found, liked, seed):
    """Tokens of a model that writes `liked` again and again wherever it may, and else anything."""
    source, dice = Enforced(machine, found.vocabulary.size), random.Random(seed)
    texts = found.vocabulary.token_bytes
    ids = {text: [token for token, other in enumerate(texts) if other == text] for text in liked}

    def choose(allowed):
        wanted = ids[liked[len(source.tokens) % len(liked)]]
        return next((token for token in wanted if token in allowed), int(dice.choice(allowed)))

    walk(source, choose, LIMIT)
    return source.tokens


def events_of(found, tokens):
    """The last token ended the response, as vLLM would say."""
    return found.segment(tokens, stop=tokens[-1], required=True)


BEGIN = b'<tool_call>\n{"name": "send", "arguments": {"text": "'
CUT = Finish("length", call="cut", repeats=True)


@pytest.mark.parametrize(
    ("dialect", "marks"), [("qwen3", True), ("qwen3_coder", False), ("gemma4", True)]
)
@pytest.mark.parametrize("liked", [(b"a",), (b"a", b"b", b"a")])
def test_calls_that_repeat_themselves_end_as_whole_or_as_cut(dialect, marks, liked):
    found = sender(dialect, marks)
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
        if cut and seed >= 2:
            break
    assert cut


@pytest.fixture
def free_text():
    """A text that has begun: the model, its automaton, and the tokens that are allowed there."""
    found = sender("qwen3", True)
    machine = found.automaton(choice="required", repetition_tokens=LENGTH)
    write(machine, found, BEGIN)
    return found, machine, allowed(machine, found)


def test_only_the_token_that_repeats_itself_is_excluded_and_only_once(free_text):
    found, machine, free = free_text
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


def test_rolled_back_tokens_do_not_count(free_text):
    found, machine, before = free_text
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


def test_text_of_a_format_that_repeats_itself_is_cut():
    found = sender("qwen3", True)
    form = found.grammar(grammar_key.CONTENT, {TEXT: {"regex": "(ab )*c"}})
    spec = Spec("none", content="format", repetition_tokens=LENGTH)
    machine = Automaton(found.turns, spec, [], form)
    assert len(write(machine, found, b"ab " * 300)) < 900
    assert allowed(machine, found) == [found.vocabulary.marks.cut]
    [last] = found.segment([found.vocabulary.marks.cut], stop=found.vocabulary.marks.cut)
    assert last == Finish("length", repeats=True)


@pytest.mark.exhaustive
def test_without_a_length_nothing_is_excluded():
    found = sender("qwen3", True)
    machine = found.automaton(choice="required")
    write(machine, found, BEGIN)
    assert write(machine, found, b"ha" * 500) == b"ha" * 500
