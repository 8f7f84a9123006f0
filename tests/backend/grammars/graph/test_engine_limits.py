"""A text that exceeds a limit of the engine does not break the graph for others."""

from __future__ import annotations

import pytest

from tests.backend.grammars.graph.models import model
from tests.support.grammars.graph_walks import Pair, graphs_of
from toolgate_backend.errors import BackendError
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.engines import llguidance_matcher
from toolgate_backend.grammars.engines.engine import CompiledGrammar
from toolgate_backend.grammars.engines.llguidance_matcher import Matchers, new_matcher
from toolgate_backend.tokens import masks

LARK = r"""start: value
CLOSED: /(?s:.*)/ "</p>" /(?s:.*)/ "\n</p>\n"
TEXT: /(?s:.{0,4096})/ "\n</p>\n"
VALUE: TEXT & ~CLOSED
value[lazy]: VALUE
"""
"""llguidance gives up in the middle of some texts."""


@pytest.mark.parametrize("wide", [300, 10_000])
def test_a_limit_of_the_engine_ends_one_text_only(
    wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llguidance_matcher, "PAUSE_SECONDS", 60)
    found = model("qwen3")
    tokenizer = found.compiler._llguidance._tokenizer
    compiled = CompiledGrammar(Matchers(lambda: new_matcher(tokenizer, LARK, {})))
    grammar = MeasuredGrammar(compiled, None, "f")
    graph = graphs_of(found, wide=wide).graph_of(grammar)
    node, failed = graph.root, False
    for token in found.vocabulary.encode("x</p>x\n</p" + "\n" * 40):
        try:
            graph.row(node)
            after = graph.step(node, token)
        except BackendError:
            failed = True
            break
        assert after is not None
        node = after
    assert failed, "the grammar no longer exceeds a limit: find another"
    pair = Pair(found, graph, grammar)
    for token in found.vocabulary.encode("a text\nof words"):
        assert len(masks.unpack(pair.check()))
        assert pair.accept(token)
