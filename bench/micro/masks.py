"""Enforcement time per engine step (µs per sequence) with a large vocabulary.

    python -m bench masks MODEL_DIR [--steps N] [--seed N] > table.md

Uses BFCL tools, one and in sets. Tokens are drawn at random from the allowed ones, so that strings
are long and all phases occur. The parts of a step are timed separately:

- accept: the automaton accepts the sampled token
- mask: computes the next mask, in the form of `masks.py`
- row: writes the mask as a row of vLLM's bitmask (adapter structured_output)
- apply: applies the mask to one row of logits on the CPU (adapter logits_processor); on a GPU, one
  kernel applies all rows of the batch

Prints Markdown: median and 99th percentile of each part.
"""

import argparse
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch

from bench.support.data import BFCL, records
from bench.support.vocabularies import vocabulary_of
from toolgate_backend.adapters.apply_masks import make_applier
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.state import Phase
from toolgate_backend.enforcement.static_masks import StaticMasks
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import words_per_row
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.tools import Tool, parse_tools

SIZES = (1, 8, 60, 300)
PARTS = ("accept", "mask", "row", "apply")
CALL_BIAS = 0.25
"""Probability that a token that ends a string, object or call is chosen where one is allowed."""

JSON_CLOSERS = frozenset((b'"', b"}", b'"}', b"]", b'"]', b'"}}', b"}}\n", b"}\n"))

Times = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="directory of a model with the vocabulary")
    parser.add_argument("--steps", type=int, default=1500, help="steps per number of tools")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    vocabulary = vocabulary_of(options.model)
    static_masks = StaticMasks(vocabulary)
    grammars = compile_tools(vocabulary, max(SIZES))
    print(f"{vocabulary.size:,} entries; one thread; torch {torch.__version__}\n")
    print("| tools | phase | steps | " + " | ".join(f"{part} p50 / p99" for part in PARTS) + " |")
    print("| --- " * (3 + len(PARTS)) + "|")
    for size in SIZES:
        rng = random.Random(options.seed)
        found = measure(vocabulary, static_masks, grammars[:size], rng, options.steps)
        for phase, times in found.items():
            cells = " | ".join(cell(times[part]) for part in PARTS)
            print(f"| {size} | {phase} | {len(times['mask'])} | {cells} |")


def compile_tools(vocabulary: Vocabulary, count: int) -> list[MeasuredGrammar]:
    """The first `count` tools with distinct names that an engine supports."""
    compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=2**30)
    found: dict[str, MeasuredGrammar] = {}
    for case in records(BFCL):
        for tool in parse_tools(case["tools"]):
            if tool.name not in found and (grammar := _compiled(compiler, tool)) is not None:
                _ = grammar.fixed_prefix  # computed once, not in a timed step
                found[tool.name] = grammar
        if len(found) >= count:
            break
    return list(found.values())[:count]


def _compiled(compiler: Compiler, tool: Tool) -> MeasuredGrammar | None:
    grammar = compiler.compile("key", tool.name, json.dumps(tool.parameters)).grammar
    # There is no token budget, so the shortest call is not needed.
    return None if grammar is None else MeasuredGrammar(grammar, None, 0)


def measure(
    vocabulary: Vocabulary,
    static_masks: StaticMasks,
    grammars: list[MeasuredGrammar],
    rng: random.Random,
    steps: int,
    closing_texts: Collection[bytes] = JSON_CLOSERS,
) -> dict[str, Times]:
    """Times by phase, of consecutive responses. Every second one reasons, if the family does."""
    applied = make_applier(torch.device("cpu"), vocabulary.size)
    found: dict[str, Times] = defaultdict(lambda: defaultdict(list))
    logits = torch.zeros(1, vocabulary.size)
    row = np.empty(words_per_row(vocabulary.size), dtype=np.int32)
    keys = tuple(str(at) for at in range(len(grammars)))
    closers = {i for i, text in enumerate(vocabulary.token_bytes) if text in closing_texts}
    reasons = vocabulary.dialect.reasoning is not None
    closers |= {*vocabulary.marks.tokens.values(), *vocabulary.marks.end_of_turn}
    automaton = None
    last: int | None = None
    for step in range(steps):
        if automaton is None or automaton.is_terminated():
            reasoning: Any = "must" if reasons and step % 2 else "closed"
            spec = Spec("required", keys, max_calls=1, reasoning=reasoning)
            automaton, last = Automaton(static_masks, spec, grammars), None
        phase = _phase(automaton)
        times = found[phase]
        if last is not None:
            token = last
            times["accept"].append(_timed(lambda: automaton.accept_tokens([token])))  # noqa: B023
            if automaton.is_terminated():
                continue
        times["mask"].append(_timed(automaton.next_mask))
        times["row"].append(_timed(lambda: automaton.fill_bitmask(row)))  # noqa: B023
        allowed = masks.unpack(row)
        shared = automaton.next_row()
        times["apply"].append(_timed(lambda: applied.apply(logits, [0], [shared])))  # noqa: B023
        logits.zero_()
        closing = [token for token in allowed[:4000].tolist() if token in closers]
        early = closing and rng.random() < CALL_BIAS
        last = rng.choice(closing) if early else int(allowed[rng.randrange(len(allowed))])
    return found


def _phase(automaton: Automaton) -> str:
    """The automaton's phase. A call is in its name while several tools are possible."""
    state = automaton.state
    if state.phase is not Phase.TOOL_CALL or state.candidates is None:
        return "thinking" if state.phase is Phase.THINKING else "marks"
    if state.candidates.finished:
        return "marks"
    return "call: name" if len(state.candidates.numbers) > 1 else "call: arguments"


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e6


def cell(times: list[float]) -> str:
    if not times:
        return ""
    p99 = sorted(times)[min(len(times) - 1, int(len(times) * 0.99))]
    return f"{statistics.median(times):,.0f} / {p99:,.0f}"
