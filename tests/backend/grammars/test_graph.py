"""Token graphs: masks equal to the engine's, in bounded memory."""

import gc
import json
import random
import re
import weakref

import pytest

from tests.backend.grammars.kit import (
    CODECS,
    ENDLESS_LARK,
    SCHEMAS,
    TEXT,
    grammar,
    model,
    parameters,
)
from tests.support.dialects.model import EndingChoice
from tests.support.effort import repeats, rotating, sampled
from tests.support.grammars.custom_grammars import CASES
from tests.support.grammars.graph_walks import Pair, graphs_of, walk
from tests.support.installed import needs
from tests.support.shared_data import TOOLS, records
from toolgate_backend.errors import BackendError
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.engines import llguidance_matcher
from toolgate_backend.grammars.engines.engine import CompiledGrammar
from toolgate_backend.grammars.engines.llguidance_matcher import matchers_of, new_matcher
from toolgate_backend.grammars.graph import node
from toolgate_backend.grammars.graph.node import NODE_BYTES, Node
from toolgate_backend.grammars.text_kinds import JSON_IN_LLGUIDANCE, FreeTexts
from toolgate_backend.tokens import masks
from toolgate_core.custom_tools import Grammar, custom_parameters
from toolgate_core.grammar_key import CONTENT
from toolgate_core.schema.canonical import TEXT as TEXT_FORM
from toolgate_core.schema.canonical import canonical_json, canonical_parameters

# --- equal masks ---
NEAR_ENDS = [
    *('"', "\\", "\\u00", "\\u0041", "\\u001f", "'", "<", "</", "\n</", "\n\n", "</parameter"),
    *("</arg_value>", "\n</parameter>", "</parameter>\n", "</parameter>x", "]<]minimax", "<|"),
    *('<|"', "\n", "12", "3.5e", "é", "日本", "[[", "{", '", "', "]", "}", "x'", "\x7f"),
]
"""Texts in which strings and values may end, or look as if."""


def compare(found, graphs, grammar, seeds):
    head = found.data.token_index.cover(grammar.fixed_prefix) or []
    index = found.data.token_index
    injected = [tokens for each in NEAR_ENDS if (tokens := index.cover(each.encode()))]
    compared = 0
    for seed in seeds:
        pair = Pair(found, graphs.graph_of(grammar), grammar)
        assert all(map(pair.accept, head))
        compared += walk(pair, found, seed, injected=injected)
    return compared


@pytest.mark.exhaustive
@sampled("dialect, schema", CODECS, SCHEMAS, one_in=9)
def test_masks_are_those_of_the_engine(dialect, schema):
    found = model(dialect)
    for wide in (300, 4096):
        graphs = graphs_of(found, wide=wide)
        compare(found, graphs, grammar(dialect, schema), range(repeats(3, nightly=40)))


CONSTRAINED = re.compile('"(pattern|format|minLength|maxLength)": ')


@needs(TOOLS)
@rotating("dialect", ["qwen3", "qwen3_coder", "gemma4", "llama32_pythonic"], one_in=4)
def test_masks_of_real_tools_are_those_of_the_engine(dialect):
    found = model(dialect)
    real = [each["schema"] for each in records(TOOLS)]
    real = [each for each in real if CONSTRAINED.search(json.dumps(each))]
    for schema in real[:: repeats(23, nightly=4)]:
        parameters = canonical_parameters(schema)
        if found.compiler.compile("key", "f", canonical_json(parameters)).grammar is None:
            continue  # this codec has no text for it
        made = found.grammar("f", parameters)
        compare(found, graphs_of(found, wide=300), made, range(repeats(2, nightly=10)))


@pytest.mark.parametrize("dialect", ["qwen3", "qwen3_coder", "gemma4"])
def test_masks_stay_right_when_graphs_begin_anew(dialect):
    found = model(dialect)
    # Rows that other tests have made are not counted again.
    graphs = graphs_of(found, max_bytes=15_000)
    for schema in ("free", "list", "pattern"):
        assert compare(found, graphs, grammar(dialect, schema), range(repeats(4, nightly=40)))
    assert graphs.memory.generation > 3


@sampled(
    "dialect, name",
    ["qwen3", "qwen3_coder", "gemma4", "llama32_pythonic"],
    ["patch", "sql"],
    one_in=3,
)
def test_masks_of_custom_tools_are_those_of_the_engine(dialect, name):
    found, case = model(dialect), next(case for case in CASES if case.name == name)
    made = found.grammar("f", custom_parameters(Grammar("lark", case.definition)))
    assert compare(found, graphs_of(found, wide=300), made, range(repeats(2, nightly=30)))


@pytest.mark.parametrize(
    "form", [{"choice": ["yes", "yes, sir", "no"]}, {"regex": "[a-z ]+(,[0-9]{2,3})*"}]
)
def test_masks_of_text_formats_are_those_of_the_engine(form):
    found = model("qwen3")
    made = found.grammar(CONTENT, {TEXT_FORM: form})
    assert compare(found, graphs_of(found), made, range(repeats(4, nightly=40)))


@pytest.mark.parametrize("dialect", ["qwen3_coder", "gpt_oss"])
def test_masks_of_formats_are_those_of_the_engine(dialect):
    found = model(dialect)
    for schema in ({"type": "object"}, SCHEMAS["free"], SCHEMAS["numbers"]):
        made = found.grammar(CONTENT, schema)
        assert compare(found, graphs_of(found), made, range(repeats(3, nightly=40)))


@pytest.mark.parametrize("form", [{"maxLength": 40}, {"maxLength": 100}])
def test_a_loop_without_a_proof_would_be_found(form):
    found = model("qwen3")
    made = found.grammar("f", parameters(a={"type": "string", **form}))
    assert len(made.compiled.free.known.constraints) == 2
    made.compiled.free = FreeTexts((JSON_IN_LLGUIDANCE,))
    with pytest.raises(AssertionError):
        compare(found, graphs_of(found), made, range(40))


# --- engine limits ---
@pytest.mark.parametrize("wide", [300, 10_000])
def test_a_limit_of_the_engine_ends_one_text_only(wide, monkeypatch):
    monkeypatch.setattr(llguidance_matcher, "PAUSE_SECONDS", 60)
    found = model("qwen3")
    tokenizer = found.compiler._llguidance._tokenizer
    compiled = CompiledGrammar(matchers_of(lambda: new_matcher(tokenizer, ENDLESS_LARK)))
    grammar = MeasuredGrammar(compiled, None, "f")
    graph = graphs_of(found, wide=wide).graph_of(grammar)
    at, failed = graph.root, False
    for token in found.vocabulary.encode("x</p>x\n</p" + "\n" * 40):
        try:
            graph.row(at)
            after = graph.step(at, token)
        except BackendError:
            failed = True
            break
        assert after is not None
        at = after
    assert failed, "the grammar no longer exceeds a limit: find another"
    pair = Pair(found, graph, grammar)
    for token in found.vocabulary.encode("a text\nof words"):
        assert len(masks.unpack(pair.check()))
        assert pair.accept(token)


# --- memory ---
def write(graph, seed, limit=60):
    """The nodes of a random text."""
    choose = EndingChoice(model("qwen3"), random.Random(seed))
    nodes = [graph.root]
    while len(nodes) < limit and not nodes[-1].finished:
        after = graph.step(nodes[-1], choose(masks.unpack(graph.row(nodes[-1]).words)))
        assert after is not None
        nodes.append(after)
    return nodes


def nodes_alive():
    gc.collect()
    return sum(type(each) is Node for each in gc.get_objects())


def test_random_text_keeps_to_the_bound():
    graphs = graphs_of(model("qwen3"), max_bytes=400_000)
    made = [grammar("qwen3", each) for each in ("free", "list", "numbers", "any")]
    before, held = nodes_alive(), []
    for seed in range(200):
        held.append(write(graphs.graph_of(made[seed % len(made)]), seed)[-1])
        assert graphs.memory.bytes < 420_000
        del held[:-8]  # sequences that still use nodes do not keep those beside them
    assert graphs.memory.generation > 2
    assert nodes_alive() - before < 2 * 420_000 / NODE_BYTES + 8 * 60


def test_nodes_are_left_out_of_garbage_collections(monkeypatch):
    """They would take long, and free nothing: what is dropped is freed without them."""

    def visited(some):
        return sum(type(each) is Node and each in some for each in gc.get_objects())

    monkeypatch.setattr(node, "FROZEN_AT_ONCE", 50_000)
    found = model("qwen3")
    graphs = graphs_of(found)
    made = found.grammar("f", SCHEMAS["numbers"])
    gc.unfreeze()  # nodes of other tests, which would count at the end only
    before = nodes_alive()
    try:
        graph = graphs.graph_of(made)
        nodes = {each for seed in range(80) for each in write(graph, seed)}
        assert len(nodes) > 500
        assert visited(nodes) < len(nodes) / 4
        del graph, made, nodes
        for _ in range(200):
            graphs.memory.tidy()
    finally:
        gc.unfreeze()
    assert nodes_alive() - before < 10


def test_a_graph_goes_with_its_grammar():
    found = model("qwen3")
    graphs = graphs_of(found)
    for dialect_schema in ({"a": TEXT}, {"a": {"type": "string", "maxLength": 9}}):
        made = found.grammar("f", parameters(**dialect_schema))
        graph = graphs.graph_of(made)
        for seed in range(5):
            write(graph, seed)
        assert graphs.graph_of(made) is graph
        assert graphs.memory.bytes > 0
        gone = weakref.ref(graph)
        del graph, made
        gc.collect()
        assert gone() is None
        assert graphs.memory.bytes == 0


def test_many_tools_keep_to_the_bound():
    found = model("qwen3")
    graphs = graphs_of(found, max_bytes=300_000)
    kept = [found.grammar(f"f{at}", parameters(a=TEXT, b=TEXT)) for at in range(60)]
    for at, each in enumerate(kept):
        write(graphs.graph_of(each), at)
        assert graphs.memory.bytes < 320_000
    assert graphs.memory.generation > 1
    for each in kept:
        root = graphs.graph_of(each).root
        assert root.generation == graphs.memory.generation


def test_nodes_of_an_earlier_generation_go_on():
    found = model("qwen3")
    graphs = graphs_of(found, max_bytes=20_000)
    graph = graphs.graph_of(grammar("qwen3", "free"))
    nodes = write(graph, 3, limit=25)
    seed = 0
    while graphs.memory.generation < 2:
        seed += 1
        write(graphs.graph_of(grammar("qwen3", "numbers")), seed)
    for each in nodes:
        row = graph.row(each)
        may = masks.unpack(row.words)
        if len(may):
            after = graph.step(each, int(may[0]))
            assert after is not None


def test_equal_masks_are_one_row():
    graphs = graphs_of(model("qwen3"))
    first, second = (
        graphs.graph_of(model("qwen3").grammar(name, SCHEMAS["free"])) for name in ("f1", "f2")
    )
    rows = [[graph.row(each) for each in write(graph, 1)] for graph in (first, second)]
    assert set(rows[0][-8:]) & set(rows[1][-8:])
