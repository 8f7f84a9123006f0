"""Compare the stated minimum of calls with the shortest calls that random walks find.

    python -m bench shortest-calls MODEL [--dialect NAME …] [--schemas N] [--samples N]

The schemas are those of real tools. A walk takes random tokens of the masks, with a liking for
those that end something, and is left as soon as it is longer than the shortest one.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import transformers
from numpy.typing import NDArray

from bench.support.data import TOOL_SCHEMAS, records
from toolgate_backend.enforcement.static_masks import StaticMasks
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar, measure
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.completions.codec_search import closers
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.vocabulary import Vocabulary, make_vocabulary
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.tools import Tool, parse_tools

MOST_TOKENS = 400
"""Walks are not longer."""
ENDS = frozenset(b"\"}],<>/\n ':|")
PLANNED, LIKED = 0.3, 0.7
"""Probabilities that a walk tries a text that ends something, or a token of its characters."""


@dataclass(frozen=True)
class Row:
    name: str
    stated: int | None
    """None if the search found no call."""
    sampled: int | None

    @property
    def ratio(self) -> float:
        return self.stated / self.sampled if self.stated and self.sampled else float("nan")


class Walks:
    """Random walks of the grammars of one dialect."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._static = StaticMasks(vocabulary)
        self._compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=2**26)

    @cached_property
    def _liked(self) -> NDArray[np.bool_]:
        return np.array([bool(text) and set(text) <= ENDS for text in self._vocabulary.token_bytes])

    @cached_property
    def _closers(self) -> list[list[int]]:
        index = self._static.completion.token_index
        texts = (*closers(self._vocabulary.form), b'"', b"}", b"]", b'""', b"[]", b"{}")
        return [tokens for text in texts if (tokens := index.cover(text))]

    def grammar(self, tool: Tool) -> MeasuredGrammar | None:
        """None if it is refused."""
        made = self._compiler.compile("key", tool.name, canonical_json(tool.parameters))
        if made.grammar is None:
            return None
        return measure(made.grammar, tool.name, tool.parameters, self._static.completion)

    def shortest(self, grammar: MeasuredGrammar, samples: int, rng: random.Random) -> int | None:
        """The number of tokens of the shortest walk."""
        best: int | None = None
        for _ in range(samples):
            length = self._walk(grammar, best or MOST_TOKENS, rng)
            best = length or best
        return best

    def _walk(self, grammar: MeasuredGrammar, limit: int, rng: random.Random) -> int | None:
        """The number of tokens of a walk of less than `limit`."""
        matcher = grammar.matcher()
        row = np.empty((self._vocabulary.size + 31) // 32, dtype=np.int32)
        planned: list[int] = []
        for count in range(limit - 1):
            if not planned and rng.random() < PLANNED:
                planned = [*rng.choice(self._closers)]
            if planned and matcher.accept(planned[0]):
                del planned[0]
            else:
                planned = []
                matcher.fill(row)
                allowed = masks.unpack(row)
                allowed = allowed[~self._special[allowed]]
                if not len(allowed):
                    return None
                liked = allowed[self._liked[allowed]]
                pool = liked if len(liked) and rng.random() < LIKED else allowed
                if not matcher.accept(int(rng.choice(pool))):
                    return None
            if matcher.finished:
                return count + 1
        return None

    @cached_property
    def _special(self) -> NDArray[np.bool_]:
        found = np.zeros(self._vocabulary.size, dtype=bool)
        found[[*self._vocabulary.special]] = True
        found[[*self._vocabulary.form.grammar_marks]] = False
        return found


def run(model: Path, dialect: str, tools: Sequence[Tool], samples: int) -> list[Row]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    size = transformers.AutoConfig.from_pretrained(model).vocab_size
    end = transformers.GenerationConfig.from_pretrained(model).eos_token_id
    walks = Walks(make_vocabulary(tokenizer, size, end, DIALECTS[dialect]))
    rows = []
    for tool in tools:
        grammar = walks.grammar(tool)
        if grammar is not None:
            rng = random.Random(tool.hash)
            rows.append(Row(tool.name, grammar.least_tokens, walks.shortest(grammar, samples, rng)))
    return rows


def real_tools(count: int) -> list[Tool]:
    """Tools of the data set, evenly spread."""
    entries = [*records(TOOL_SCHEMAS)]
    found: list[Tool] = []
    for at, entry in enumerate(entries[:: max(1, len(entries) // count)][:count]):
        function = {"name": f"tool_{at}", "parameters": entry["schema"]}
        try:
            found += parse_tools([{"type": "function", "function": function}])
        except ToolgateError:
            continue
    return found


def summary(dialect: str, rows: Sequence[Row]) -> str:
    both = [row for row in rows if row.stated and row.sampled]
    ratios = sorted(row.ratio for row in both)
    above = sum(row.ratio > 1 for row in both)
    far = sum(row.ratio > 1.15 for row in both)
    stated = sorted(row.stated for row in rows if row.stated)
    p50, p90 = (stated[int(len(stated) * share)] for share in (0.5, 0.9))
    missing = sum(row.stated is None for row in rows)
    return (
        f"| {dialect} | {len(rows)} | {missing} | {p50} | {p90} | {stated[-1]} | {len(both)} "
        f"| {above} | {far} | {ratios[-1]:.2f} |"
    )


HEAD = (
    "| dialect | schemas | no call found | p50 | p90 | max | sampled | above | above by 15 % "
    "| largest ratio |\n|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--dialect", action="append")
    parser.add_argument("--schemas", type=int, default=120)
    parser.add_argument("--samples", type=int, default=200)
    options = parser.parse_args()
    tools = real_tools(options.schemas)
    print(HEAD)
    for dialect in options.dialect or ["qwen3"]:
        began = time.monotonic()
        rows = run(options.model, dialect, tools, options.samples)
        print(summary(dialect, rows), flush=True)
        for row in sorted(rows, key=lambda row: -row.ratio if row.ratio == row.ratio else 0):
            if row.ratio > 1 or row.stated is None:
                print(f"    {row.name}: {row.stated}, sampled {row.sampled}", file=sys.stderr)
        print(f"    {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0
