"""Valid texts that masks forbid, and invalid ones that they allow, by keyword and engine.

    python -m bench exactness [--schemas 300] [--seed 1] [--out FILE] [--report FILE.md]

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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.exactness.cases import SOURCES, Case, cases
from bench.exactness.engines import ENGINES, OPEN, Engines, Refused, bytes_vocabulary
from bench.exactness.judgement import Judge
from tests.support import commands
from tests.support.markdown import table
from tests.support.vocabularies import vocabulary_of

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


Row = dict[str, Any]
REAL = ("maskbench", "bfcl")
EVERY = (*REAL, "suite")
FORMS = {
    "given": "as given",
    "shuffled": "members shuffled",
    "compact": "without white space",
}
CAUSES = {
    "white_space": "white space other than the dialect's",
    "member_order": "members in another order than the schema's",
    "number_form": "a number with an exponent or a fraction of zero",
    "closed_object": "an undeclared member of an object that declares properties",
}
ALLOWED = (
    "toolgate, masked",
    "toolgate, left to validation",
    f"{OPEN}, masked",
    f"{OPEN}, left to validation",
    "xgrammar",
    "llguidance",
)


def document(rows: Sequence[Row]) -> str:
    """In Markdown. In parentheses: schemas."""
    engines = ["", *ENGINES]
    of_form = ("white_space", "member_order")
    sections = {
        "Overview": table(engines, _overview(rows)),
        "Wrongly forbidden: valid instances of real schemas, as given": table(
            engines, _forbidden(rows, sources=REAL, forms=("given",))
        ),
        "Wrongly forbidden: all, but for white space and the order of members": table(
            engines, _forbidden(rows, sources=EVERY, without=of_form)
        ),
        "Wrongly allowed, by the keyword that the text violates": table(
            ["", *ALLOWED], _allowed(rows)
        ),
    }
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items()) + "\n"


def _overview(rows: Sequence[Row]) -> Iterator[Sequence[object]]:
    by = [[row for row in rows if row["engine"] == engine] for engine in ENGINES]
    lines: dict[str, Any] = {
        "schemas": len,
        "refused by the engine": lambda some: sum("refused" in row for row in some),
        "over the limit on time, or crashed": lambda some: sum("failed" in row for row in some),
        "some keywords left to validation": partial(_sum, key="residual"),
    }
    for sources, what in ((REAL, "real schemas"), (("suite",), "test suite")):
        for form, name in FORMS.items():
            lines[f"{what}, valid instances {name}: refused"] = partial(
                _refused, sources=sources, form=form
            )
    lines |= {
        "valid neighbours: refused": lambda some: _rate(
            _count(some, EVERY, "forbidden", "neighbour"), _sum(some, "valid_values")
        ),
        "invalid neighbours: allowed": partial(_neighbours, residual=False),
        "the same, schemas with keywords left to validation": partial(_neighbours, residual=True),
        "walks": partial(_sum, key="walks"),
        "walks that did not end": partial(_sum, key="unended"),
        "walks that ended invalid": lambda some: _count(
            some, EVERY, "allowed", "walk", residual=False
        ),
    }
    for name, cell in lines.items():
        yield [name, *map(cell, by)]


def _refused(rows: Sequence[Row], sources: Sequence[str], form: str) -> str:
    valid = sum(row.get("valid", {}).get(form, 0) for row in rows if row["source"] in sources)
    return _rate(_count(rows, sources, "forbidden", form), valid)


def _neighbours(rows: Sequence[Row], *, residual: bool) -> str:
    """The invalid ones that masks allow, of schemas with or without residual keywords."""
    invalid = _sum([r for r in rows if bool(r.get("residual")) is residual], "invalid_values")
    return _rate(_count(rows, EVERY, "allowed", "neighbour", residual=residual), invalid)


def _sum(rows: Iterable[Row], key: str) -> int:
    return sum(row.get(key, 0) for row in rows)


def _count(
    rows: Iterable[Row],
    sources: Sequence[str],
    side: str,
    form: str,
    residual: bool | None = None,
) -> int:
    return sum(
        found["side"] == side and found["form"] == form
        for row in rows
        if row["source"] in sources and residual in (None, bool(row.get("residual")))
        for found in row.get("found", ())
    )


def _rate(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / whole:.2%})" if whole else "–"


def _forbidden(
    rows: Sequence[Row],
    sources: Sequence[str],
    forms: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> Iterator[Sequence[object]]:
    def named(row: Row, found: Row) -> tuple[str, str] | None:
        if found["side"] != "forbidden" or row["source"] not in sources:
            return None
        if (forms and found["form"] not in forms) or found["kind"] in without:
            return None
        return CAUSES.get(found["kind"]) or f"`{found['keyword']}`", row["engine"]

    yield from _tabulated(rows, named, ENGINES)


def _allowed(rows: Sequence[Row]) -> Iterator[Sequence[object]]:
    def named(row: Row, found: Row) -> tuple[str, str] | None:
        if found["side"] != "allowed":
            return None
        cause = f"`{found['keyword']}`" if found["kind"] == "keyword" else found["kind"]
        if row["engine"] not in ("toolgate", OPEN):
            return cause, row["engine"]
        return cause, f"{row['engine']}, {'left to validation' if row['residual'] else 'masked'}"

    yield from _tabulated(rows, named, ALLOWED)


def _tabulated(
    rows: Sequence[Row], named: Any, columns: Sequence[str]
) -> Iterator[Sequence[object]]:
    """The texts of each cause in each column, and how many schemas they belong to."""
    schemas: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    totals: Counter[str] = Counter()
    for row in rows:
        for found in row.get("found", ()):
            if (place := named(row, found)) is not None:
                schemas[place[0]][place[1]].append(row["id"])
                totals[place[1]] += 1
    for cause in sorted(schemas, key=lambda name: (name.startswith("`"), name)):
        texts = (schemas[cause][column] for column in columns)
        yield [cause, *(f"{len(ids):,} ({len({*ids}):,})" if ids else 0 for ids in texts)]
    yield ["**all**", *(f"**{totals[column]:,}**" for column in columns)]
