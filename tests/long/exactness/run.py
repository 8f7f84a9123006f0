"""Valid texts that masks forbid, and invalid ones that they allow, by keyword and engine.

    python -m tests.long exactness [--schemas 300] [--seed 1] [--out FILE] [--report FILE.md]

For each schema, the instances that are valid are written in their own order of members, shuffled,
and without white space, and walked token by token over a model's vocabulary through the masks of
Toolgate, xgrammar and llguidance. So are many values close to an instance, valid and invalid. Over
a vocabulary of single bytes, random walks leave an instance at a random place; what they end with
is validated. The results are lines of JSON in FILE; a second run continues where the first one
ended, and `--report` makes the tables of them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from tests.support import commands
from tests.support.vocabularies import vocabulary_of

from .cases import SOURCES, Case, cases
from .engines import ENGINES, Engines, Refused, bytes_vocabulary
from .isolation import isolated
from .judgement import Judge
from .report import document

MODEL = ".cache/models/tiny-qwen3-vocab"
OUT = Path(".cache/exactness.jsonl")


def main() -> int:
    parser = commands.parser_of(__doc__)
    parser.add_argument("--model", default=MODEL, help="directory of a model with the vocabulary")
    parser.add_argument("--sources", default=",".join(SOURCES))
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    parser.add_argument("--schemas", type=int, default=300, help="of each source; 0: all")
    parser.add_argument("--neighbours", type=int, default=20, help="of each instance")
    parser.add_argument("--walks", type=int, default=10, help="of each schema")
    parser.add_argument("--seconds", type=float, default=20, help="of each schema and engine")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--report", type=Path, help="write the tables, and do not run")
    options = parser.parse_args()
    if options.report:
        options.report.write_text(document(_read(options.out)), encoding="utf-8")
        return 0
    done = {(row["id"], row["engine"], row["seed"]) for row in _read(options.out)}
    # Children are forked, and threads of tokenizers do not survive a fork.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    whole, single = Engines(vocabulary_of(options.model)), Engines(bytes_vocabulary())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("a", encoding="utf-8") as out:
        found = cases(options.sources.split(","), options.schemas, options.seed)
        for count, case in enumerate(found):
            for engine in options.engines:
                if (case.id, engine, options.seed) in done:
                    continue
                began = time.monotonic()
                row = _judged(case, engine, options, whole, single)
                row["seconds"] = round(time.monotonic() - began, 2)
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
                out.flush()
            if count % 50 == 0:
                print(f"{count} schemas", flush=True)
    return 0


def _judged(
    case: Case, engine: str, options: argparse.Namespace, whole: Engines, single: Engines
) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        judge = Judge(case, engine, options.seed, counts=(options.neighbours, options.walks))
        try:
            judge.texts(whole, whole.masks(engine, case.schema, case.canonical))
            judge.walks(single, single.masks(engine, case.schema, case.canonical))
        except Refused as refused:
            return {"refused": str(refused)}
        return judge.judgement.data()

    about = {"id": case.id, "source": case.source, "group": case.group, "seed": options.seed}
    result = isolated(work, options.seconds)
    return about | {"engine": engine} | result


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
