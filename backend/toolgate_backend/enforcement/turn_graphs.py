"""The graphs of the requests to one model, by what distinguishes their turns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from ..grammars.compiled_grammar import MeasuredGrammar
from .model_data import ModelData
from .spec import Spec
from .turn_graph import TurnGraph

MAX_TURNS = 256
"""Maximum number of graphs: of different requests, of which the least recently used is dropped."""


class _Key(NamedTuple):
    """What distinguishes turns."""

    constraints: tuple[object, ...]
    grammars: tuple[MeasuredGrammar, ...]
    content: MeasuredGrammar | None


class TurnGraphs:
    """The graphs of the requests to one model. They begin anew with those of the grammars, of which
    they have nodes."""

    def __init__(self, model: ModelData) -> None:
        self._model = model
        self._graphs: OrderedDict[_Key, TurnGraph] = OrderedDict()
        self._generation = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._graphs)

    def has(
        self, spec: Spec, grammars: Sequence[MeasuredGrammar], content: MeasuredGrammar | None
    ) -> bool:
        """Whether `graph` would find the graph."""
        is_new = self._model.graphs.memory.generation != self._generation
        return not is_new and self._key(spec, grammars, content) in self._graphs

    def graph(
        self, spec: Spec, grammars: Sequence[MeasuredGrammar], content: MeasuredGrammar | None
    ) -> TurnGraph:
        """The graph that the sequences of equal requests share."""
        key = self._key(spec, grammars, content)
        generation = self._model.graphs.memory.generation
        with self._lock:
            if generation != self._generation:
                self._graphs.clear()
                self._generation = generation
            found = self._graphs.get(key)
            if found is not None:
                self._graphs.move_to_end(key)
                return found
        made = TurnGraph(self._model, spec, grammars, content)
        with self._lock:
            self._graphs[key] = made
            while len(self._graphs) > MAX_TURNS:
                _, dropped = self._graphs.popitem(last=False)
                self._model.graphs.memory.add(-dropped.bytes)
        return made

    def _key(
        self, spec: Spec, grammars: Sequence[MeasuredGrammar], content: MeasuredGrammar | None
    ) -> _Key:
        return _Key(_constraints(self._model, spec), tuple(grammars), content)

    def forget(self, grammar: MeasuredGrammar) -> None:
        """Drop the graphs of turns with a grammar that is no longer loaded."""
        with self._lock:
            for key in [*self._graphs]:
                if grammar is key.content or grammar in key.grammars:
                    self._model.graphs.memory.add(-self._graphs.pop(key).bytes)


def _constraints(model: ModelData, spec: Spec) -> tuple[object, ...]:
    """What distinguishes turns with the same grammars."""
    ids = (spec.earlier_calls, spec.id_seed, spec.choice_number) if model.form.has_ids else ()
    return (
        spec.choice,
        spec.max_calls,
        spec.reasoning,
        spec.skip_reasoning,
        spec.ignore_end,
        spec.stop_ids,
        spec.bad_words,
        ids,
    )
