"""Random walks over a token graph, beside the engine's own matcher."""

import random

import numpy as np

from tests.support.dialects.model import EndingChoice
from toolgate_backend.grammars.graph.node_maker import GraphContext
from toolgate_backend.grammars.graph.token_graph import TokenGraphs
from toolgate_backend.grammars.graph.value_bounds import narrowed
from toolgate_backend.tokens import masks


def graphs_of(model, **bounds):
    data, vocabulary = model.data, model.vocabulary
    shared = GraphContext(
        unit_bytes=vocabulary.unit_bytes,
        token_index=data.token_index,
        allowed=data.in_grammars,
        refused=vocabulary.special - vocabulary.form.grammar_marks,
        rows=data.rows,
        bounds=model.value_bounds,
        **{"max_bytes": 2**26, **bounds},
    )
    return TokenGraphs(shared)


class Pair:
    """A node of a graph, and a matcher of the engine after the same tokens."""

    def __init__(self, model, graph, grammar):
        self._model = model
        self.graph = graph
        self._grammar = grammar
        self._bounds = model.value_bounds.of(grammar)
        self._places = [self._bounds.begin] if self._bounds else []
        self.nodes = [graph.root]
        self.tokens = []
        self.matcher = grammar.matcher()

    @property
    def node(self):
        return self.nodes[-1]

    def text(self):
        return b"".join(self._model.vocabulary.unit_bytes[token] for token in self.tokens)

    def wanted(self):
        """The mask by the engine's matcher."""
        row = np.zeros_like(self._model.data.in_grammars)
        self.matcher.fill(row)
        row &= self._model.data.in_grammars
        if not row.any():  # text that is spelled like a special token
            tokens = self._model.data.token_index.prefixes_of(self.matcher.forced())
            row[:] = masks.pack(masks.token_ids(tokens), len(row) * 32)
        if self._bounds is None:
            return row
        return narrowed(row, self._bounds.refused(self._places[-1]))

    def check(self):
        """The mask, after it was compared."""
        found, wanted = self.graph.row(self.node).words, self.wanted()
        assert np.array_equal(found, wanted), (
            self.text(),
            [self._model.vocabulary.unit_bytes[t] for t in masks.unpack(found & ~wanted)[:9]],
            [self._model.vocabulary.unit_bytes[t] for t in masks.unpack(wanted & ~found)[:9]],
        )
        return found

    def accept(self, token):
        """Accept a token in both, if both do."""
        after = self.graph.step(self.node, token)
        refused = (
            token in self._model.vocabulary.special - self._model.vocabulary.form.grammar_marks
        )
        wanted = not refused and self.matcher.accept(token)
        unit = self._model.vocabulary.unit_bytes[token]
        assert (after is not None) == wanted, (self.text(), unit, wanted)
        if after is None:
            return False
        self.nodes.append(after)
        self.tokens.append(token)
        if self._bounds is not None:
            self._places.append(self._bounds.after(self._places[-1], unit))
        assert after.finished == self.matcher.finished, self.text()
        assert after.complete == self.matcher.complete, self.text()
        return True

    def rollback(self, count):
        """Go back. The engine reads the tokens again: its own way back is not what is tested."""
        del self.nodes[-count:]
        del self.tokens[-count:]
        del self._places[-count:]
        self.matcher = self._grammar.matcher()
        assert all(map(self.matcher.accept, self.tokens))


def walk(pair, model, seed, limit=120, injected=()):
    """Walk until the text ends. Texts of `injected` tokens are tried where masks may not allow
    them. Returns the number of masks that were compared."""
    rng = random.Random(seed)
    choose = EndingChoice(model, rng)
    compared = 0
    while len(pair.tokens) < limit and not pair.node.finished:
        allowed = masks.unpack(pair.check())
        compared += 1
        if rng.random() < 0.05:
            assert pair.graph.forced(pair.node) == pair.matcher.forced(), pair.text()
        if rng.random() < 0.3 and pair.accept(rng.randrange(len(model.split_texts))):
            pair.rollback(1)
        if injected and rng.random() < 0.2:
            for token in rng.choice(injected):
                if pair.node.finished or not pair.accept(token):
                    break
            continue
        if not len(allowed):
            return compared  # the mask of forced text, which is not the graph's
        split = allowed[model.split_texts[allowed]]
        some = split if len(split) and rng.random() < 0.15 else allowed
        assert pair.accept(choose(some))
        if rng.random() < 0.08:
            pair.rollback(rng.randint(1, min(6, len(pair.tokens))))
    return compared
