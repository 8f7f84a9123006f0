"""Random walks of every dialect, read by our segmenter and by a reader of complete texts.

    python -m bench families [--walks 2000] [--splits 20] [--dialects a,b] [--out FILE]

Every walk is a turn with a required call under the masks of the enforcement, with marks as tokens
and as text in turn, over tools whose strings are close to the marks of the dialect. Each call is
validated by jsonschema. The result is written after each dialect to docs/families.json, from which
`make docs` makes the table in docs/reference/families.md.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests import tools
from tests.models import ROOT
from tests.support import commands
from tests.support.dialects.model import DialectModel, EndingChoice, calls_in
from tests.support.dialects.text_reader import calls_of
from tests.support.schemas.judge import schema_violation
from tests.support.walker.walk import Enforced, walk
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS

OUT = ROOT / "docs" / "families.json"
LIMIT = 300
"""Maximum number of tokens of a walk."""
COUNTED = ("walks", "calls", "invalid", "splits", "differ", "text_differ")
MODES = ["insert", "replace all", "</parameter>x"]
EDIT = tools.tool(
    "edit",
    {
        "path": {"type": "string", "minLength": 1, "maxLength": 40},
        "text": {"type": "string"},
        "line": {"type": ["integer", "null"]},
        "mode": {"enum": MODES},
    },
    ["text", "mode"],
)
OFFERED = [*tools.ALL, EDIT, tools.tool("nothing", {})]
SCHEMAS = {each["function"]["name"]: each["function"]["parameters"] for each in OFFERED}


def measure(dialect: Dialect, walks: int, splits: int) -> dict[str, int]:
    """The counts of one dialect."""
    counts: Counter[str] = Counter()
    for tokens in ((), mark_texts(dialect)):
        _walk_all(DialectModel(dialect, tokens, OFFERED), walks // 2, splits, counts)
    return {key: counts[key] for key in COUNTED}


def _walk_all(model: DialectModel, walks: int, splits: int, counts: Counter[str]) -> None:
    dice, machine = random.Random(1), model.automaton(choice="required")
    for seed in range(walks):
        machine.reset()
        source = Enforced(machine, model.vocabulary.size)
        if not walk(source, EndingChoice(model, random.Random(seed)), LIMIT):
            continue
        tokens = source.tokens
        counts["walks"] += 1
        calls = calls_in(model.segment(tokens, required=True))
        counts["calls"] += len(calls)
        values = [(name, json.loads(arguments)) for name, arguments in calls]
        counts["invalid"] += sum(
            schema_violation(SCHEMAS[name], each) is not None for name, each in values
        )
        for _ in range(splits):
            at = [dice.randrange(len(tokens)) for _ in range(4)]
            counts["splits"] += 1
            counts["differ"] += calls_in(model.segment(tokens, at, required=True)) != calls
        text = model.text(tokens)
        try:
            found: Any = calls_of(text, model.dialect, SCHEMAS)
        except (AssertionError, LookupError, ValueError) as error:
            found = repr(error)
        if found != values:
            counts["text_differ"] += 1
            print(f"   {text[:300]!r}\n      ours {values!r:.300}\n      text {found!r:.300}")


def main() -> None:
    parser = commands.parser_of(__doc__)
    parser.add_argument("--walks", type=int, default=2000)
    parser.add_argument("--splits", type=int, default=20, help="splits of each walk")
    parser.add_argument("--dialects", default="", help="names, separated by commas; all by default")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    names = options.dialects.split(",") if options.dialects else [*DIALECTS]
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in names:
        if DIALECTS[name].calls is None:
            continue
        started = time.monotonic()
        found = measure(DIALECTS[name], options.walks, options.splits)
        results[name] = results.get(name, {}) | found
        print(f"{name:16} {found} ({time.monotonic() - started:.0f} s)", flush=True)
        options.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
