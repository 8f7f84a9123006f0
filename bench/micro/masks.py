"""What enforcement costs in a step of the engine: µs a row, at a vocabulary of real size.

    python -m bench.micro.masks MODEL_DIR [--steps N] [--seed N] > table.md

Tools of BFCL, alone and in sets; the tokens are random ones among those allowed, so that strings
run long and every phase is met. Each step is timed in its parts, as the adapters take them:

- accept: the automaton takes in the token that was sampled last
- mask: what may come next, in the form of enforcement/masks.py
- row: that as a row of vLLM's bitmask (adapter structured_output)
- apply: that on one row of logits on the CPU (adapter logits_processor); on a GPU, rows are applied
  by one kernel for the batch

Prints Markdown: the median and the 99th percentile of each part.
"""

import argparse
import gzip
import json
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.support.vocabularies import vocabulary_of
from toolgate_backend.adapters.apply_masks import MaskApplier
from toolgate_backend.enforcement import masks
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.state import Phase
from toolgate_backend.enforcement.static_masks import StaticMasks
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.engines.engine import words_per_row
from toolgate_backend.vocabulary import Vocabulary
from toolgate_core.tools import Tool, parse_tools

SHARED = Path(os.environ.get("TOOLGATE_SHARED", Path(__file__).resolve().parents[3] / "shared"))
SIZES = (1, 8, 60, 300)
PARTS = ("accept", "mask", "row", "apply")
CALL_BIAS = 0.25
"""How often a step takes a token that ends strings, objects and calls, where one may come."""

Times = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=1500, help="steps for each size of tool set")
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
            cells = " | ".join(_cell(times[part]) for part in PARTS)
            print(f"| {size} | {phase} | {len(times['mask'])} | {cells} |")


def compile_tools(vocabulary: Vocabulary, count: int) -> list[MeasuredGrammar]:
    """The first `count` tools of different names that an engine takes."""
    compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=2**30)
    found: dict[str, MeasuredGrammar] = {}
    with gzip.open(SHARED / "data" / "bfcl.jsonl.gz", "rt") as lines:
        for line in lines:
            for tool in parse_tools(json.loads(line)["tools"]):
                if tool.name not in found and (grammar := _compiled(compiler, tool)) is not None:
                    _ = grammar.fixed_prefix
                    found[tool.name] = grammar
            if len(found) >= count:
                break
    return list(found.values())[:count]


def _compiled(compiler: Compiler, tool: Tool) -> MeasuredGrammar | None:
    grammar = compiler.compile("key", tool.name, json.dumps(tool.parameters)).grammar
    # Without a budget nothing is asked about ways out.
    return None if grammar is None else MeasuredGrammar(grammar, None, 0)


def measure(
    vocabulary: Vocabulary,
    static_masks: StaticMasks,
    grammars: list[MeasuredGrammar],
    rng: random.Random,
    steps: int,
) -> dict[str, Times]:
    """Times by phase. Several answers one after another, each begun when the last has ended."""
    applied = MaskApplier(torch.device("cpu"))
    found: dict[str, Times] = defaultdict(lambda: defaultdict(list))
    logits = torch.zeros(1, vocabulary.size)
    row = np.empty(words_per_row(vocabulary.size), dtype=np.int32)
    keys = tuple(str(at) for at in range(len(grammars)))
    closers = {
        i
        for i, text in enumerate(vocabulary.token_bytes)
        if text in (b'"', b"}", b'"}', b"]", b'"]', b'"}}', b"}}\n", b"}\n")
    }
    closers |= {vocabulary.marks.reasoning_end or 0, *vocabulary.marks.end_of_turn}
    automaton = None
    last: int | None = None
    for step in range(steps):
        if automaton is None or automaton.is_terminated():
            reasoning: Any = "must" if step % 2 else "closed"
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
        mask = automaton.next_mask()
        times["apply"].append(_timed(lambda: applied.apply(logits, [(0, mask)])))  # noqa: B023
        logits.zero_()
        closing = [token for token in allowed[:4000].tolist() if token in closers]
        early = closing and rng.random() < CALL_BIAS
        last = rng.choice(closing) if early else int(allowed[rng.randrange(len(allowed))])
    return found


def _phase(automaton: Automaton) -> str:
    """As the automaton's own, but a call is in its name while several tools are left."""
    state = automaton.state
    if state.phase is not Phase.TOOL_CALL or state.candidates is None:
        return "thinking" if state.phase is Phase.THINKING else "marks"
    if state.candidates.finished:
        return "marks"
    return "call: name" if state.candidates.count > 1 else "call: arguments"


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e6


def _cell(times: list[float]) -> str:
    if not times:
        return ""
    worst = sorted(times)[min(len(times) - 1, int(len(times) * 0.99))]
    return f"{statistics.median(times):,.0f} / {worst:,.0f}"


if __name__ == "__main__":
    main()
