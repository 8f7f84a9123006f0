"""The memory of token graphs has a bound, and goes with grammars and sequences."""

from __future__ import annotations

import gc
import random
import weakref

from tests.backend.grammars.graph.models import SCHEMAS, TEXT, grammar, model, parameters
from tests.support.dialects.model import EndingChoice
from tests.support.grammars.graph_walks import graphs_of
from toolgate_backend.grammars.graph.node import NODE_BYTES, Node
from toolgate_backend.grammars.graph.token_graph import TokenGraph
from toolgate_backend.tokens import masks


def write(graph: TokenGraph, seed: int, limit: int = 60) -> list[Node]:
    """The nodes of a random text."""
    choose = EndingChoice(model("qwen3"), random.Random(seed))
    nodes = [graph.root]
    while len(nodes) < limit and not nodes[-1].finished:
        after = graph.step(nodes[-1], choose(masks.unpack(graph.row(nodes[-1]).words)))
        assert after is not None
        nodes.append(after)
    return nodes


def nodes_alive() -> int:
    gc.collect()
    return sum(type(each) is Node for each in gc.get_objects())


def test_random_text_keeps_to_the_bound() -> None:
    graphs = graphs_of(model("qwen3"), max_bytes=400_000)
    made = [grammar("qwen3", each) for each in ("free", "list", "numbers", "any")]
    before, held = nodes_alive(), []
    for seed in range(200):
        held.append(write(graphs.graph_of(made[seed % len(made)]), seed)[-1])
        assert graphs.memory.bytes < 420_000
        del held[:-8]  # sequences that still use nodes do not keep those beside them
    assert graphs.memory.generation > 2
    assert nodes_alive() - before < 2 * 420_000 / NODE_BYTES + 8 * 60


def test_a_graph_goes_with_its_grammar() -> None:
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


def test_many_tools_keep_to_the_bound() -> None:
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


def test_nodes_of_an_earlier_generation_go_on() -> None:
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


def test_equal_masks_are_one_row() -> None:
    graphs = graphs_of(model("qwen3"))
    first, second = (
        graphs.graph_of(model("qwen3").grammar(name, SCHEMAS["free"])) for name in ("f1", "f2")
    )
    rows = [[graph.row(node) for node in write(graph, 1)] for graph in (first, second)]
    assert set(rows[0][-8:]) & set(rows[1][-8:])
