"""Strings are free only where that is proven, and then they take no nodes; values end."""

import json
import random
from itertools import accumulate, chain
from pathlib import Path

import pytest

from tests.backend.grammars.kit import CODECS, TEXT, grammar, model, parameters
from tests.support.effort import rotating
from tests.support.grammars.graph_walks import Pair, graphs_of, walk
from toolgate_backend.grammars.graph.value_places import JSON, reader_of, value_of
from toolgate_backend.grammars.text_kinds import (
    JSON_IN_LLGUIDANCE,
    JSON_IN_XGRAMMAR,
    PYTHON,
    free_texts,
    raw_text,
)
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.units import units
from toolgate_core.schema.closed_objects import close_objects
from toolgate_core.schema.string_languages import FREE

CASES = json.loads(Path(__file__).with_name("free_strings.json").read_text())

# --- free strings ---
ARRAY = {"type": "array", "items": TEXT}
OPEN = {"type": "object"}
NODE = {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}
CONSTRAINED = CASES["constrained"]


def has_free_strings(schema, *, with_names=True):
    return bool(free_texts(schema, PYTHON, with_names=with_names).strings)


@pytest.mark.parametrize("schema", CASES["free"], ids=str)
def test_strings_that_are_free(schema):
    for whole in (schema, parameters(a=schema, b=ARRAY)):
        found = free_texts(close_objects(whole), PYTHON)
        assert found.strings
        assert found.known.constraints == (FREE,)


@pytest.mark.parametrize("schema", CASES["of_known_languages"], ids=str)
def test_strings_of_known_languages(schema):
    found = free_texts(parameters(a=schema, b=TEXT) | {"additionalProperties": False}, PYTHON)
    assert found.strings
    assert len(found.known.constraints) == 2


def test_references_are_followed():
    node = parameters(next=NODE, name=TEXT)
    assert has_free_strings(close_objects({**parameters(a=NODE), "$defs": {"node": node}}))
    for other in ({"type": ["string", "null"]}, {"$ref": "#/$defs/node"}, {"$ref": "https://a"}):
        assert not has_free_strings({**parameters(a=NODE), "$defs": {"node": other}})


@pytest.mark.parametrize("schema", CONSTRAINED, ids=str)
def test_strings_that_may_be_constrained(schema):
    for whole in (schema, parameters(b=TEXT, a=schema), {"type": "array", "items": schema}):
        assert not has_free_strings(close_objects(whole))


def test_undeclared_names_can_be_excluded():
    assert has_free_strings(close_objects(parameters(a=ARRAY, b=NODE)), with_names=False) is False
    assert has_free_strings(close_objects(parameters(a=ARRAY)), with_names=False)
    for schema in ({}, OPEN, True, {"type": ["object", "null"]}):
        assert not has_free_strings(close_objects(parameters(a=schema)), with_names=False)


def test_lengths_that_masks_may_not_count():
    """In raw text, they may leave them to validation."""
    schema = close_objects(parameters(a=TEXT | {"maxLength": 1000, "minLength": 3}))
    found = free_texts(schema, (JSON_IN_LLGUIDANCE,)).known.constraints
    assert {each.most for each in found} == {None, 1000}
    assert len(free_texts(schema, (XML,)).known.constraints) == len(found) + 1


def test_bare_names_must_not_look_like_numbers():
    for name, is_free in (("a1", True), ("1", False), ("-x", False)):
        schema = close_objects(parameters(a=parameters(**{name: TEXT})))
        assert bool(free_texts(schema, PYTHON, bare_names=True).strings) == is_free
        assert free_texts(schema, PYTHON).strings == PYTHON


@pytest.mark.parametrize(("schema", "is_free"), CASES["numbers_are_free_without_bounds"])
def test_numbers_are_free_without_bounds(schema, is_free):
    found = free_texts(close_objects(parameters(a=schema)), (JSON_IN_XGRAMMAR,))
    assert found.strings
    assert found.known.numbers == is_free


XML = raw_text(b"\n</a>\n", b"</a>", ends_with_mark=False)
MARKED = raw_text(b"\n", b"</a>", ends_with_mark=True)
BEGUN = [
    *((JSON_IN_XGRAMMAR, text, begun) for text, begun in [
        (b"", b""), (b"abc {1}", b""), ("é日本😀".encode(), b""), (b'\\"\\u12aF\\/', b""),
        (b"a\\", b"\\"), (b"\\\\\\u1", b"\\u1"), ("日".encode()[:2], "日".encode()[:2]),
        (b'a"', None), (b"\n", None), (b"\\x", None), (b"\\u12g", None), (b"\xc0\x80", None),
        (b"\xed\xa0\x80", None), (b"\xff[12]", None), (b"\x7f", b""),
    ]),
    *((JSON_IN_LLGUIDANCE, text, begun) for text, begun in [
        (b"\\u001f\\u007F", b""), (b"\\u0", b"\\u0"), (b"\\u0041", None), (b"\\/", None),
        (b"\x7f", None), (b"a\\", b"\\"),
    ]),
    *((PYTHON[0], text, begun) for text, begun in [
        (b'a"\\\'', b""), (b"\\", b"\\"), (b"'", None), (b"\\u0041", None), (b"\n", None),
    ]),
    *((PYTHON[1], text, begun) for text, begun in [
        (b"a'\\\"", b""), (b"\\u0041", None), (b'"', None),
    ]),
    *((XML, text, begun) for text, begun in [
        (b"a\nb", b""), (b"a\n", b"\n"), (b"a\n\n</", b"\n</"), (b"a</a", b"</a"), (b"</a>", None),
        (b"</b", b""), (b"\n</a>", None), (b"<\xe6\x97", b"\xe6\x97"), (b"\xff[3]", None),
    ]),
    *((MARKED, text, begun) for text, begun in [
        (b"a\n", b"\n"), (b"\n\n", b"\n"), (b"\na", b""), (b"</a", b"</a"), (b"</a>", None),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "begun"), BEGUN)
def test_what_has_begun_at_the_end_of_a_text(kind, text, begun):
    assert kind.begun(text) == begun


@pytest.mark.parametrize(
    ("kind", "text", "characters"),
    [
        (JSON_IN_LLGUIDANCE, '日\\n\\\\\\"\\u001f', '日\n\\"\x1f'),
        (PYTHON[0], "a\\'\\t", "a'\t"),
        (XML, "\\n\n", "\\n\n"),
    ],
)
def test_characters_of_a_text(kind, text, characters):
    assert kind.characters(text.encode()) == characters


@rotating("dialect", [each for each in CODECS if each != "minicpm5"], one_in=3)
def test_free_text_takes_no_nodes(dialect):
    """Of MiniCPM's codec, whose strings have two forms, nothing is proven."""
    found = model(dialect)
    assert grammar(dialect, "free").compiled.free.strings
    graphs = graphs_of(found)
    graph = graphs.graph_of(grammar(dialect, "free"))
    rng = random.Random(4)
    node = None
    while node is None or node.loop is None:
        node = graph.root if node is None or node.finished else node
        node = graph.step(node, int(rng.choice(masks.unpack(graph.row(node).words))))
        assert node is not None
    texts = found.vocabulary.unit_bytes
    assert node.position is not None
    kind = node.position.table.kind
    inside = [
        token
        for token in masks.unpack(graph.row(node).words).tolist()
        if kind.begun(texts[token]) is not None
    ]
    seen = set()
    text = b""
    for _ in range(4000):
        row = graph.row(node).words
        likely = [t for t in rng.choices(inside, k=20) if row[t // 32] >> (t % 32) & 1]
        for token in chain(likely, (int(each) for each in masks.unpack(row))):
            if kind.begun(node.position.begun + texts[token]) is not None:
                break
        text += texts[token]
        after = graph.step(node, token)
        assert after is not None
        seen.add(node := after)
        assert node.position is not None
    assert len(text) > 8000
    assert len(seen) < 120


def call(dialect, a, n, b):
    """The encoded text of a call in the form of a grammar."""
    before, after = model(dialect).vocabulary.form.grammar_texts("f")
    if dialect == "qwen3":
        arguments = json.dumps({"a": a, "n": n, "b": b}, ensure_ascii=False)
    elif dialect == "qwen3_coder":
        values = {"a": a, "n": n, "b": b}
        each = (f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in values.items())
        arguments = "".join(each)
    else:
        arguments = f"a={json.dumps(a)}, n={n}, b={json.dumps(b)}"
    return before + arguments + after


OTHER_VALUES = [("qwen3", "free"), ("qwen3", "nonempty_free"), ("qwen3_coder", "free")]


@rotating("dialect, schema", [*OTHER_VALUES, ("llama32_pythonic", "free")], one_in=2)
def test_calls_with_other_values_take_no_more_nodes(dialect, schema):
    found, rng = model(dialect), random.Random(2)
    graphs = graphs_of(found)
    words = ["Paris,", "the", "'weather'", "of\n2024", "$12.50;", "naïve", "東京", "a/b", "[1]:"]

    def write():
        texts = [" ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(2)]
        if dialect == "llama32_pythonic":
            texts = [text.encode("ascii", "replace").decode() for text in texts]
        graph = graphs.graph_of(grammar(dialect, schema))
        node, number = graph.root, rng.randint(-9, 99999)
        for token in found.vocabulary.literal_tokens(call(dialect, texts[0], number, texts[1])):
            graph.row(node)
            after = graph.step(node, token)
            assert after is not None
            node = after
        assert node.finished
        return graphs.memory.bytes

    sizes = [write() for _ in range(400)]
    assert sizes[-1] < 200_000
    assert sizes[-1] - sizes[200] < 5_000


def test_a_token_may_begin_a_string_and_its_end():
    """The token `></` of `<parameter=a></parameter>`, after which the string is not any text."""
    found, made = model("mimo_v2"), grammar("mimo_v2", "free")
    graphs, index = graphs_of(found), found.data.token_index
    head = index.cover(made.fixed_prefix + b"a") or []
    both = found.vocabulary.unit_bytes.index(b"></")
    for seed, rest in enumerate((b"parameter>\n", b"parameter> and", b"b> </parameter>\n")):
        pair = Pair(found, graphs.graph_of(made), made)
        assert all(map(pair.accept, [*head, both]))
        for token in index.cover(rest) or []:
            pair.check()
            if not pair.accept(token):
                assert rest == b"parameter> and"
                break
        walk(pair, found, seed, injected=[])


def nodes_of(graph, tokens):
    """The nodes of a text, with their masks."""
    nodes = [graph.root]
    for token in tokens:
        graph.row(nodes[-1])
        after = graph.step(nodes[-1], token)
        assert after is not None
        nodes.append(after)
    return nodes


def test_unknown_text_takes_no_nodes_of_the_graph():
    found = model("qwen3")
    made = found.grammar("f", parameters(a=TEXT | {"maxLength": 20_000}))
    graphs, index = graphs_of(found, wide=300), found.data.token_index
    assert not made.compiled.free.strings
    assert made.fixed_prefix.endswith(b'"a": "')
    graph = graphs.graph_of(made)
    nodes_of(graph, index.cover(made.fixed_prefix))
    before = graphs.memory.bytes
    nodes_of(graph, index.cover(made.fixed_prefix + b"abc def " * 200))
    assert graphs.memory.bytes < before + 20_000


@pytest.mark.parametrize(
    ("form", "values"),
    [
        ({"pattern": "^[A-Za-z0-9 .,'-]+$"}, ["the weather, in Oslo", "A 1.5 'b'", "x-y"]),
        ({"format": "date-time"}, ["2024-02-29T10:00:00Z", "1999-12-31t23:59:59.5+01:00"]),
        ({"format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"]),
        ({"minLength": 3}, ["the weather in Oslo", "abc"]),
    ],
)
def test_text_of_a_known_language_takes_few_nodes(form, values):
    found, rng = model("qwen3"), random.Random(2)
    made = found.grammar("f", parameters(a=TEXT | form, b=TEXT))
    assert made.fixed_prefix.endswith(b'{"')
    graphs, before, sizes = graphs_of(found), made.fixed_prefix + b'a": "', list[int]()
    singles = {
        bytes([byte]): index
        for byte in range(128)
        for index in found.data.token_index.cover(bytes([byte])) or ()
    }
    for _ in range(60):
        text = rng.choice(values).encode()
        at = rng.randrange(len(text))
        tokens = [
            *found.data.token_index.cover(before),
            *(found.data.token_index.cover(text[:at]) or ()),
            *(singles[text[n : n + 1]] for n in range(at, len(text))),
            *found.data.token_index.cover(b'", "b": "'),
        ]
        nodes = nodes_of(graphs.graph_of(made), tokens)
        assert not any(node.private for node in nodes)
        sizes.append(graphs.memory.bytes)
    assert len({node for node in nodes if node.position}) < 60
    assert sizes[-1] < 200_000
    assert sizes[-1] - sizes[40] < 5_000


def test_far_from_a_bound_a_text_needs_no_engine(monkeypatch):
    found = model("qwen3")
    made = found.grammar("f", parameters(a=TEXT | {"maxLength": 1000}, b=TEXT))
    graph, index = graphs_of(found).graph_of(made), found.data.token_index
    head = index.cover(made.fixed_prefix + b'a": "')
    nodes_of(graph, [*head, *index.cover(b"some words")])
    with monkeypatch.context() as patch:
        patch.setattr(graph._maker._scouts, "take", lambda node: 1 / 0)
        nodes = nodes_of(graph, [*head, *index.cover(b"other words " * 20)])
    assert len({node.row for node in nodes[-30:]}) == 1
    pair = Pair(found, graph, made)
    for token in [*head, *index.cover(b"x" * 990)]:
        assert pair.accept(token)
    for _ in range(10):
        pair.check()
        assert pair.accept(index.cover(b"x")[0])
    pair.check()
    assert not pair.accept(index.cover(b"x")[0])


def test_strings_that_are_listed_are_told_from_those_of_a_language():
    """The names of members, and the values of an enumeration, begin as the others do."""
    found = model("qwen3")
    digits = TEXT | {"pattern": "^[0-9]+$"}
    listed = {"type": "string", "enum": ["12", "123", "2"]}
    made = found.grammar("f", {**parameters(**{"1": listed, "12": digits, "3": digits})})
    assert made.compiled.free.strings
    index = found.data.token_index
    for text in (b'{"1": "12', b'{"1": "2', b'{"12": "12', b'{"1": "12", "12": "2', b'{"1'):
        pair = Pair(found, graphs_of(found).graph_of(made), made)
        for token in index.cover(made.fixed_prefix.removesuffix(b'{"') + text):
            pair.check()
            assert pair.accept(token)
        walk(pair, found, 3, injected=[])


# --- value bounds ---
CALL_BEGUN = {
    "qwen3": b'{"a": ',
    "gpt_oss": b'{"a": ',
    "qwen3_coder": b"<parameter=a>\n",
    "gemma4": b"{a:",
    "llama32_pythonic": b"(a=",
    "minimax_m3": b"<a>",
}
"""By dialect: the end of a call's text before the value of its argument."""


@pytest.mark.parametrize("dialect", CALL_BEGUN)
def test_a_text_that_is_read_in_parts_has_the_same_place(dialect):
    form = model(dialect).vocabulary.form
    reader, rng = reader_of(form), random.Random(5)
    assert [JSON.ends(each) for each in (b'a": [', b'[a"')] == [True, False]
    quote = units(form.marks.encode('<|"|>'), form.marks)
    namespace = units(form.marks.encode("]<]minimax[>["), form.marks)
    pieces = [b'"', b"'", b"\\", b"[", b"]", b"{", b"}", b"a1", b"1", b".5", b", ", b"<|", quote]
    pieces += [b"<parameter=a>", b"\n", b"<parameter=b>\n", b"\n</parameter>\n", b"</", quote[:2]]
    pieces += [namespace, namespace + b"<a>", namespace + b"</a>", b"<b>", b"<a", b">"]
    tags = {b"a": "json", b"b": "text", b"c": "either"}
    for _ in range(400):
        parts = rng.choices(pieces, k=20)
        place = reader.begin
        for part, text in zip(parts, accumulate(parts), strict=True):
            place = reader.after(place, part, tags)
            assert value_of(place) == value_of(reader.after(reader.begin, text, tags)), text
