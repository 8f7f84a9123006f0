"""Calls as a trained model writes them, and as random weights do: any token that the masks of
Toolgate and of vLLM allow."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import count as count_from
from typing import Any

import numpy as np
import numpy.typing as npt
import xgrammar

from bench.support.tools import call_tokens, natural_value, reference_calls, varied
from tests.support.vocabularies import JSON_CLOSERS
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.enforcement.turn_graph import TurnGraphs
from toolgate_backend.grammars.store import GrammarStore
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import BitmaskRow, words_per_row
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.tools import parse_tools

from .blocks import Text
from .tools import MAX_TOKENS, Tools, bench_tools, definitions_of, load_grammars

CLOSER_WEIGHT = math.exp(7)
"""Weight of tokens that end strings, objects and calls, so that calls end. Others have 1."""
TRIES = 64
"""Random tokens that are tried before all allowed ones are listed."""
MOST_TRIES = 10
"""Calls that are tried for one that the masks allow."""


def write_calls(vocabulary: Vocabulary, text: Text, count: int) -> list[list[int]]:
    """The tokens of calls, with the end of the turn. Those are left out that become too long, or
    that the masks forbid."""
    writer = _Writer(vocabulary, bench_tools(text))
    calls: list[list[int]] = []
    if text == "random":
        made = (writer.call() for _ in count_from(0))
    else:
        proposed = _reference() if text == "reference" else _natural(text)
        every = (call_tokens(vocabulary, name, arguments) for name, arguments in proposed)
        made = (call if writer.allows(call) else None for call in every)
    for tried, call in enumerate(made):
        if call is not None:
            calls.append(call)
        if len(calls) == count:
            break
        if tried > MOST_TRIES * count:
            raise RuntimeError(f"the masks forbid nearly all {text} calls")
    return calls


def _natural(text: Text) -> Iterator[tuple[str, Any]]:
    """Calls of the tools without end, as a trained model writes them."""
    rng, tools = random.Random(1), parse_tools(definitions_of(text))
    while True:
        tool = rng.choice(tools)
        yield tool.name, natural_value(tool.parameters, rng)


def _reference() -> Iterator[tuple[str, Any]]:
    """BFCL's reference calls, then others of their shape without end."""
    rng, tools = random.Random(1), definitions_of("reference")
    calls = [each for each in reference_calls() if each.tools[0] in tools]
    for each in calls:
        yield each.name, each.arguments
    while True:
        each = rng.choice(calls)
        yield each.name, varied(each.arguments, each.schema, rng)


class _Writer:
    def __init__(self, vocabulary: Vocabulary, tools: Tools) -> None:
        self._rng = np.random.default_rng(1)
        self._size, self._ends = vocabulary.size, vocabulary.marks.end_of_turn
        self._spec, self._turns = tools.spec, TurnGraphs(ModelData(vocabulary))
        self._store = GrammarStore(vocabulary)
        load_grammars(self._store.load, self._store.verdicts, tools)
        compiler = xgrammar.GrammarCompiler(vocabulary.info, max_threads=1)
        self._strict = compiler.compile_structural_tag(tools.strict_tag)
        closers = [i for i, text in enumerate(vocabulary.token_bytes) if text in JSON_CLOSERS]
        closers += [*vocabulary.marks.tokens.values(), self._ends[0]]
        self._closers = np.array(closers)
        words = words_per_row(vocabulary.size)
        self._row, self._strict_row = np.zeros(words, np.int32), np.zeros((1, words), np.int32)

    def call(self) -> list[int] | None:
        """None if it does not end in time, or if the masks have no token in common."""
        automaton, matcher = self._start()
        tokens: list[int] = []
        while len(tokens) < MAX_TOKENS - 1:
            automaton.fill_bitmask(self._row)
            matcher.fill_next_token_bitmask(self._strict_row)
            token = self._choose(self._row & self._strict_row[0])
            if token is None:
                return None
            tokens.append(token)
            if token in self._ends:
                return tokens
            if not automaton.accept_tokens([token]) or not matcher.accept_token(token):
                raise RuntimeError(f"token {token} is refused, which its mask allows: {tokens}")
        return None

    def allows(self, call: Sequence[int]) -> bool:
        if len(call) > MAX_TOKENS:
            return False
        tokens = call[:-1]
        automaton, matcher = self._start()
        return automaton.accept_tokens(tokens) and all(map(matcher.accept_token, tokens))

    def _start(self) -> tuple[Automaton, xgrammar.GrammarMatcher]:
        grammars = self._spec.grammars_in(self._store)
        return Automaton(self._turns, self._spec, *grammars), xgrammar.GrammarMatcher(self._strict)

    def _choose(self, allowed: BitmaskRow) -> int | None:
        closers = self._allowed(allowed, self._closers)
        weight = len(closers) * CLOSER_WEIGHT
        count = int(np.bitwise_count(allowed.view(np.uint32)).sum())
        if count == 0:
            return None
        if self._rng.random() < weight / (weight + count - len(closers)):
            return int(self._rng.choice(closers))
        tried = self._allowed(allowed, self._rng.integers(self._size, size=TRIES))
        return int(tried[0]) if len(tried) else int(self._rng.choice(masks.unpack(allowed)))

    @staticmethod
    def _allowed(row: BitmaskRow, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        chosen: npt.NDArray[np.int64] = tokens[row[tokens >> 5] >> (tokens & 31) & 1 == 1]
        return chosen
