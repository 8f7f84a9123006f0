"""Random walks over calls of custom tools with grammars, read by `regex` and Lark's parsers.

    python -m bench custom-tools [--calls 20000] [--dialects a,b] [--jobs 2] [--out FILE]

Every walk is a turn with one required call under the masks of the enforcement: random allowed
tokens, with parts of texts in between that are close to the grammar, to escapes and to the marks of
the dialects. The segmenter reads the tokens, and the input is what a client would get. It has to
match the grammar by the package `regex` or by Lark's own parsers, and by the reader of the
gateway. Marks are text and tokens in turn.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, get_args

from tests.support.dialects.model import DialectModel
from tests.support.grammars.custom_grammars import CASES, Case
from tests.support.grammars.custom_walks import CustomWalks

from toolgate_core.custom_tools import Grammar, Syntax
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.dialects.usual_marks import marks_of
from toolgate_proxy.validation.grammar_reader import read_grammar

DEFAULT = "qwen3,qwen3_coder,gemma4,llama4_pythonic,deepseek_v32,minimax_m3"
ATTEMPTS = 4
"""Maximum number of walks for one call that ends."""
SHOWN = 3


def measure(dialect_name: str, case: Case, calls: int) -> dict[str, Any]:
    """The counts of one grammar in one dialect."""
    dialect = DIALECTS[dialect_name]
    counts: Counter[str] = Counter()
    shown: list[str] = []
    began = time.monotonic()
    matches = None
    if case.syntax in get_args(Syntax):
        matches = read_grammar(Grammar(case.syntax, case.definition))  # type: ignore[arg-type]
    found = (), marks_of(dialect)
    for tokens in found:
        walks = CustomWalks(DialectModel(dialect, tokens, [case.tool]), case)
        for seed in range(calls * ATTEMPTS // 2):
            if counts["calls"] >= calls // 2 * (2 if tokens == found[1] else 1):
                break
            counts["walks"] += 1
            inputs = walks.inputs(seed)
            if inputs is None:
                counts["cut"] += 1
                continue
            for text in inputs:
                counts["calls"] += 1
                counts["characters"] += len(text)
                rejected = not case.accepts(text)
                counts["rejected"] += rejected
                unread = matches is not None and not matches(text)
                counts["rejected_by_reader"] += unread
                if (rejected or unread) and len(shown) < SHOWN:
                    shown.append(text)
    return {
        "dialect": dialect_name,
        "grammar": case.name,
        **{name: counts[name] for name in COUNTED},
        "seconds": round(time.monotonic() - began, 1),
        "shown": shown,
    }


COUNTED = ("walks", "calls", "cut", "characters", "rejected", "rejected_by_reader")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=20_000)
    options.add_argument("--dialects", default=DEFAULT)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    dialects = given.dialects.split(",")
    quota = -(-given.calls // (len(dialects) * len(CASES)))
    quota += quota % 2
    results: list[dict[str, Any]] = []
    with ProcessPoolExecutor(given.jobs) as pool:
        jobs = [
            pool.submit(measure, dialect, case, quota) for case in CASES for dialect in dialects
        ]
        for job in jobs:
            row = job.result()
            results.append(row)
            print(*(f"{key}={value}" for key, value in row.items()), flush=True)
            if given.out:
                given.out.write_text(json.dumps(results, ensure_ascii=False, indent=1))
    totals = {name: sum(row[name] for row in results) for name in COUNTED}
    print("total", *(f"{key}={value}" for key, value in totals.items()))
    return int(totals["rejected"] + totals["rejected_by_reader"] > 0)
