"""Put small faults into the product, and report which ones the tests notice.

    python -m tests.mutants draw --count 200 --seed 72       # writes drawn.json
    python -m tests.mutants cover --out .cache/mutants       # which test runs which line: an hour
    python -m tests.mutants run --cover .cache/mutants --out results.json [--only TEXT] [-n 2]
    python -m tests.mutants compare old.json new.json

`drawn.json` is drawn by a seed from all lines of the product; `promises.json` is written by hand.
`run` changes files of the product while it runs: use a checkout in which nothing else happens.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .mutant import ROOT, Gone, Mutant, drawn
from .plugin import SETTING

HERE = Path(__file__).parent
DATA = (HERE / "drawn.json", HERE / "promises.json")
GROUPS = {
    "backend": "backend and not vllm and not slow",
    "gateway": "not backend and not vllm and not slow",
    "vllm": "vllm and not slow",
}
"""One process of pytest imports vLLM, and the other one LiteLLM."""
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p")
PLUGIN = "tests.mutants.plugin"


def mutants() -> list[Mutant]:
    """Those of the data files that exist."""
    files = [path for path in DATA if path.exists()]
    return [Mutant(**row) for path in files for row in json.loads(path.read_text())]


def draw(options: argparse.Namespace) -> int:
    rows = [asdict(each) for each in drawn(options.count, options.seed)]
    DATA[0].write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    return 0


def cover(options: argparse.Namespace) -> int:
    """Run each group once with coverage, whose contexts are the tests."""
    options.out.mkdir(parents=True, exist_ok=True)
    sources = "--source=toolgate_core,toolgate_backend,toolgate_proxy"
    for name, marks in GROUPS.items():
        command = [sys.executable, "-m", "coverage", "run", sources]
        command += [f"--data-file={options.out / name}.coverage", *PYTEST[1:], PLUGIN, "-m", marks]
        subprocess.run(command, cwd=ROOT, check=False)
    return 0


def tests_of(mutant: Mutant, folder: Path, group: str) -> set[str]:
    """The tests that run a line of the mutant's function."""
    from coverage import CoverageData

    path = folder / f"{group}.coverage"
    if not path.exists():
        return set()
    data = CoverageData(str(path))
    data.read()
    lines = mutant.path.read_text().splitlines()
    contexts = data.contexts_by_lineno(str(mutant.path))
    here = [at for at, line in enumerate(lines, start=1) if line.strip() == mutant.old]
    return {name for at in here for name in contexts.get(at, ()) if name}


def run(options: argparse.Namespace) -> int:
    chosen = [each for each in mutants() if options.only in f"{each.module} {each.promise}"]
    results: list[dict[str, Any]] = [{"mutant": asdict(e), "verdicts": {}} for e in chosen]
    with TemporaryDirectory() as scratch:
        for group, marks in GROUPS.items():
            rows = list[dict[str, Any]]()
            for at, mutant in enumerate(chosen):
                try:
                    mutant.source()
                    tests = sorted(tests_of(mutant, options.cover, group))
                except Gone as error:
                    results[at]["gone"] = str(error)
                    continue
                if tests:
                    out = str(Path(scratch) / f"{group}-{at}.json")
                    rows.append({"mutant": asdict(mutant), "tests": tests, "out": out, "at": at})
            todo = Path(scratch) / f"{group}.json"
            todo.write_text(json.dumps(rows))
            files = sorted({test.partition("::")[0] for row in rows for test in row["tests"]})
            environment = {**os.environ, SETTING: str(todo)}
            command = [*PYTEST, PLUGIN, "-m", marks, *files]
            if rows:
                subprocess.run(command, cwd=ROOT, env=environment, check=False)
            for row in rows:
                if (out_file := Path(row["out"])).exists():
                    results[row["at"]]["verdicts"][group] = json.loads(out_file.read_text())
    options.out.write_text(json.dumps(results, indent=1, ensure_ascii=False))
    living = [each for each in results if not is_killed(each)]
    print(f"{len(results)} mutants, {len(living)} not noticed:")
    for each in living:
        print(json.dumps(each, ensure_ascii=False))
    return 0


def is_killed(result: dict[str, Any]) -> bool:
    return any(each.get("killed_by") for each in result["verdicts"].values())


def compare(options: argparse.Namespace) -> int:
    """Print the mutants that the older results killed and the newer ones did not."""
    old, new = (json.loads(path.read_text()) for path in (options.old, options.new))
    killed = {json.dumps(each["mutant"]) for each in new if is_killed(each)}
    lost = [e for e in old if is_killed(e) and json.dumps(e["mutant"]) not in killed]
    for each in lost:
        print(json.dumps(each, ensure_ascii=False))
    return 1 if lost else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("draw")
    one.add_argument("--count", type=int, default=200)
    one.add_argument("--seed", type=int, default=72)
    one.set_defaults(run=draw)
    one = commands.add_parser("cover")
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(run=cover)
    one = commands.add_parser("run")
    one.add_argument("--cover", type=Path, required=True)
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--only", default="", help="mutants whose module or promise has this text")
    one.set_defaults(run=run)
    one = commands.add_parser("compare")
    one.add_argument("old", type=Path)
    one.add_argument("new", type=Path)
    one.set_defaults(run=compare)
    options = parser.parse_args()
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
