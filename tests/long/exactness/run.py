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
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import commands
from tests.support.vocabularies import vocabulary_of

from .cases import SOURCES, Case, cases
from .engines import ENGINES, Engines, Refused, bytes_vocabulary
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


MEMORY_BYTES = 4 * 2**30


def isolated(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The result of `work`, or {"failed": reason}. The result is JSON."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        status = 1
        try:
            _limit(seconds)
            result = json.dumps(work())
            with os.fdopen(write, "w") as pipe:
                pipe.write(result)
            status = 0
        except BaseException as error:  # noqa: BLE001 - a fork must not go on in its parent's code
            os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace")[:2000])
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status == 0:
        result = json.loads(text)
        assert isinstance(result, dict)
        return result
    if os.WIFSIGNALED(status):
        timed_out = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        return {"failed": "time" if timed_out else "crash"}
    return {"failed": "error"}


def _limit(seconds: float) -> None:
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - the fork opens as little as it can
        pages = int(statm.read().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 6 * seconds)
