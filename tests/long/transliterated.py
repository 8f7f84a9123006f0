"""Walk at random through the masks of real schemas whose names and values are in other scripts.

    python -m tests.long transliterated --processes 2 --one-in 10
    python -m tests.long transliterated --seed 17             # one of them again

A seed is one schema of the data sets (tools, BFCL, MaskBench, and those of the tests of codecs) in
one form of calls, `content`, or `llguidance` (the calls of `qwen3` without xgrammar), and with it
each script of `tests/support/schemas/scripts.py`. Reported are masks that allow nothing, texts that
the gateway's reader does not read, and values that violate a schema which masks enforce completely.
The exit status is 1 if something is wrong.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from contextlib import closing
from functools import lru_cache
from typing import Any

from tests.long.outcomes import Outcome, Runs, parser_of, side_by_side
from tests.support.dialects.codec_schemas import CODEC_SCHEMAS
from tests.support.dialects.codec_walks import CodecModel
from tests.support.schemas.judge import schema_violation
from tests.support.schemas.scripts import SCRIPTS, transliterated
from tests.support.schemas.suites import FORMS, real_tools
from tests.support.shared_data import BFCL, MASKBENCH, path_of, records
from toolgate_backend.errors import BackendError
from toolgate_backend.grammars.compiler import CompileResult, RewrittenSchema
from toolgate_backend.grammars.engines.choice import NOT_XGRAMMAR
from toolgate_core import grammar_key
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_json, canonical_parameters

ALL_FORMS = (*FORMS, "content", "llguidance")
WALKS = 2
MAX_TOKENS = 250


@lru_cache(maxsize=1)
def schemas() -> list[dict[str, Any]]:
    """All different schemas of objects."""
    found = [*CODEC_SCHEMAS.values(), *(tool["parameters"] for tool in real_tools())]
    found += [t["function"].get("parameters") for r in records(BFCL) for t in r["tools"]]
    if path_of(MASKBENCH).exists():
        found += [record["schema"] for record in records(MASKBENCH)]
    return [*{json.dumps(each): each for each in found if isinstance(each, dict)}.values()]


@lru_cache(maxsize=2)
def model_of(form: str) -> CodecModel:
    dialect = DIALECTS[form if form in DIALECTS else "qwen3"]
    name = grammar_key.CONTENT if form == "content" else "f"
    return CodecModel(dialect, mark_texts(dialect), name)


def run(seed: int) -> Outcome:
    """All scripts of one schema in one form. Seeds in a row have the same form."""
    outcome, began = Outcome(seed), time.monotonic()
    form, schema = ALL_FORMS[seed // len(schemas())], schemas()[seed % len(schemas())]
    for script, write in SCRIPTS.items():
        for wrong in violations(form, transliterated(schema, write), outcome.counts):
            outcome.violations.append(f"{form}, {script}: {wrong}")
    outcome.seconds = time.monotonic() - began
    return outcome


def violations(form: str, schema: dict[str, Any], counts: Counter[str]) -> list[str]:
    model = model_of(form)
    try:
        canonical = canonical_parameters(schema)
    except ToolgateError:
        counts["schemas: refused"] += 1
        return []
    result = _compiled(model, form, canonical)
    verdict, grammar = result.verdict, result.grammar
    counts[f"schemas: {verdict.engine or 'refused'}"] += 1
    if "misreads" in str(verdict.reason):
        return [f"{verdict.reason}"]
    found = []
    for seed in range(WALKS):
        if grammar is None:
            break
        counts["walks"] += 1
        try:
            text = model.walk(grammar, seed, limit=MAX_TOKENS)
            value = None if text is None else json.loads(model.parsed(canonical, text))
        except (AssertionError, BackendError, ValueError) as error:
            found.append(f"{type(error).__name__}: {str(error)[:200]}")
            continue
        counts["walks: ended"] += text is not None
        counts["walks: ended, residual"] += text is not None and bool(verdict.residual)
        if text is not None and not verdict.residual:
            wrong = schema_violation(canonical, value)
            found += [] if wrong is None else [f"{wrong} in {text[:200]!r}"]
    return found


def _compiled(model: CodecModel, form: str, canonical: dict[str, Any]) -> CompileResult:
    text = canonical_json(canonical)
    result = model.compiler.compile("key", model.name, text)
    if form == "llguidance" and result.verdict.engine == "xgrammar":
        marked = json.loads(result.verdict.rewritten or text) | {NOT_XGRAMMAR: "asked for"}
        rewritten = RewrittenSchema(canonical_json(marked), result.verdict.residual)
        return model.compiler.compile("key", model.name, text, rewritten)
    return result


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--one-in", type=int, default=1, help="only one of so many schemas")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    runs = Runs(options.out)
    every = range(0, len(schemas()) * len(ALL_FORMS), options.one_in)
    seeds = runs.missing(every if options.seed is None else [options.seed])
    with closing(side_by_side(run, seeds, options.processes)) as found:
        for outcome in found:
            runs.add(outcome)
    return runs.report("schemas in forms")
