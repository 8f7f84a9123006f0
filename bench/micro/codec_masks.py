"""Cost of each form of arguments: compile time of a tool, and enforcement time per token.

    python -m bench codec-masks MODEL_DIR [--steps N] [--tools N] > table.md

One family for each form (JSON, tags, nested tags, Gemma, Python), with the vocabulary of the model
and the special tokens of the family. The calls are to the same BFCL tools, one tool per response.
Tokens are drawn at random from the allowed ones. Prints Markdown: median and 99th percentile.
"""

import argparse
import random
import time
from collections import defaultdict

import torch

from bench.micro.masks import JSON_CLOSERS, PARTS, Times, cell, measure
from bench.support.data import BFCL, records
from bench.support.vocabularies import vocabulary_of
from toolgate_backend.enforcement.static_masks import StaticMasks
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.completions.codec_search import closers
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.tools import Tool, parse_tools

FAMILIES = {
    "JSON": "qwen3",
    "tags": "qwen3_coder",
    "tags of special tokens": "glm47",
    "nested tags": "minimax_m3",
    "Gemma": "gemma4",
    "Python": "lfm2_5",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="directory of a model with the vocabulary")
    parser.add_argument("--steps", type=int, default=200, help="steps per tool")
    parser.add_argument("--tools", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tools = distinct_tools(options.tools)
    print(f"{len(tools)} tools; times in µs, compile time in ms; one thread\n")
    print("| form | family | refused | compile | " + " | ".join(PARTS) + " | engines |")
    print("| --- " * (5 + len(PARTS)) + "|")
    for form, family in FAMILIES.items():
        print(f"| {form} | {family} | " + measured(options.model, family, tools, options.steps))


def measured(model: str, family: str, tools: list[Tool], steps: int) -> str:
    """The cells of one family's row."""
    vocabulary = vocabulary_of(model, DIALECTS[family])
    static_masks, rng = StaticMasks(vocabulary), random.Random(1)
    compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=2**30)
    closing = {*JSON_CLOSERS, *(text for text in closers(vocabulary.form))}
    times: Times = defaultdict(list)
    compiles, engines, refused = list[float](), set[str](), 0
    for tool in tools:
        began = time.perf_counter()
        outcome = compiler.compile("key", tool.name, canonical_json(tool.parameters))
        if outcome.grammar is None:
            refused += 1
            continue
        compiles.append((time.perf_counter() - began) * 1000)
        engines.add(outcome.verdict.engine or "")
        grammars = [MeasuredGrammar(outcome.grammar, None, 0)]
        found = measure(vocabulary, static_masks, grammars, rng, steps, closing)
        for part, values in found["call: arguments"].items():
            times[part] += values
    cells = [cell(times[part]) for part in PARTS]
    return " | ".join([str(refused), cell(compiles), *cells, ", ".join(sorted(engines))]) + " |"


def distinct_tools(count: int) -> list[Tool]:
    found: dict[str, Tool] = {}
    for case in records(BFCL):
        found |= {tool.name: tool for tool in parse_tools(case["tools"])}
        if len(found) >= count:
            break
    return list(found.values())[:count]


if __name__ == "__main__":
    main()
