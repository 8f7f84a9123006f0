"""Put small faults into the product, and report which ones the tests notice.

    python -m tests.mutants draw --count 200 --seed 72       # replaces those that are gone
    python -m tests.mutants cover --out .cache/mutants       # which test runs which line
    python -m tests.mutants run --cover .cache/mutants --out results.json [--only TEXT]
    python -m tests.mutants compare old.json new.json

`drawn.json` is drawn by a seed from all lines of the product; `promises.json` is written by hand.
`cover` and `run` change files of the product while they run: use a checkout in which nothing else
happens.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from .mutant import ROOT, Mutant, drawn
from .plugin import SETTING
from .probes import probed, read_blocks, read_hits

HERE = Path(__file__).parent
DATA = (HERE / "drawn.json", HERE / "promises.json")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
PLUGIN = "tests.mutants.plugin"
MOST_TESTS = 300
"""Number of tests that run for a mutant."""


def mutants():
    return [Mutant(**row) for path in DATA for row in json.loads(path.read_text())]


def draw(options):
    kept = [each for each in mutants() if each.is_there() and not each.promise]
    rows = [asdict(each) for each in drawn(options.count, options.seed, kept)]
    DATA[0].write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    return 0


def cover(options):
    """Run the tests of `make test` with a probe at the line of each mutant."""
    folder = options.out.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    workers = ("-p", "tests.support.workers", "--workers", "2")
    there = [each for each in mutants() if each.is_there()]
    with probed(there, folder) as blocks:
        command = [*PYTEST, *workers, "-p", PLUGIN, "-m", "not slow", *options.pytest]
        subprocess.run(command, cwd=ROOT, check=False)
    found = read_hits(folder)
    rows = [{"mutant": asdict(e), "tests": found.get(at, {})} for at, e in enumerate(there)]
    (folder / "covered.json").write_text(json.dumps(rows, indent=1))
    ran = read_blocks(folder)
    state = {name: at in ran for at, name in enumerate(blocks)}
    (folder / "blocks.json").write_text(json.dumps(state, indent=1))
    print(f"{len(ran)} of {len(blocks)} blocks ran")
    return 0


def run(options):
    covered = json.loads((options.cover / "covered.json").read_text())
    tests = {json.dumps(row["mutant"]): row["tests"] for row in covered}
    chosen = [each for each in mutants() if options.only in f"{each.module} {each.promise}"]
    chosen = chosen[options.part :: options.parts]
    results = []
    verdicts = options.out.resolve().with_suffix(".verdicts")
    shutil.rmtree(verdicts, ignore_errors=True)
    verdicts.mkdir(parents=True)
    rows = []
    for at, mutant in enumerate(chosen):
        results.append({"mutant": asdict(mutant)})
        names = _ordered(mutant, tests.get(json.dumps(asdict(mutant)), {}))
        if not mutant.is_there():
            results[at]["gone"] = True
        elif names:
            out = str(verdicts / f"{at}.json")
            rows.append({"mutant": asdict(mutant), "tests": names, "out": out, "at": at})
    todo = verdicts / "todo.json"
    todo.write_text(json.dumps(rows))
    files = sorted({name.partition("::")[0] for row in rows for name in row["tests"]})
    command = [*PYTEST, "-p", PLUGIN, "-m", "not slow", *files]
    subprocess.run(command, cwd=ROOT, env={**os.environ, SETTING: str(todo)}, check=False)
    for row in rows:
        if (file := Path(row["out"])).exists():
            results[row["at"]] |= json.loads(file.read_text())
    options.out.write_text(json.dumps(results, indent=1, ensure_ascii=False))
    living = [each for each in results if not is_killed(each)]
    print(f"{len(results)} mutants, {len(living)} not noticed:")
    for each in living:
        print(json.dumps(each, ensure_ascii=False))
    return 0


def _ordered(mutant, tests):
    """The tests in the order in which they probably notice the mutant soonest: those without vLLM
    and gateway processes, then those in the folder of the mutant's module, then short ones."""
    folder = "/".join(["tests", *mutant.module.removeprefix("toolgate_").split(".")[:-1]])
    slow = {"tests/gateway": 2, "tests/proxy/process": 1, "tests/clients": 1}

    def rank(name):
        servers = next((each for start, each in slow.items() if name.startswith(start)), 0)
        return servers, not name.startswith(folder), round(tests[name], 1)

    return sorted(tests, key=rank)[:MOST_TESTS]


def is_killed(result):
    return bool(result.get("killed_by"))


def compare(options):
    """Print what the older tests did and the newer ones do not: mutants that they killed (of two
    results of `run`), or blocks of the product that they ran (of two files blocks.json)."""
    old, new = (json.loads(path.read_text()) for path in (options.old, options.new))
    if isinstance(old, dict):
        gone = [name for name, ran in old.items() if ran and name in new and not new[name]]
        print("\n".join(gone))
        return 1 if gone else 0
    killed = {json.dumps(each["mutant"]) for each in new if is_killed(each)}
    lost = [e for e in old if is_killed(e) and json.dumps(e["mutant"]) not in killed]
    for each in lost:
        print(json.dumps(each, ensure_ascii=False))
    return 1 if lost else 0


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("draw")
    one.add_argument("--count", type=int, default=200)
    one.add_argument("--seed", type=int, default=72)
    one.set_defaults(run=draw)
    one = commands.add_parser("cover")
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("pytest", nargs="*", help="arguments of pytest, for example folders")
    one.set_defaults(run=cover)
    one = commands.add_parser("run")
    one.add_argument("--cover", type=Path, required=True)
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--only", default="", help="mutants whose module or promise has this text")
    one.add_argument("--part", type=int, default=0, help="which of the mutants, from 0")
    one.add_argument("--parts", type=int, default=1)
    one.set_defaults(run=run)
    one = commands.add_parser("compare")
    one.add_argument("old", type=Path)
    one.add_argument("new", type=Path)
    one.set_defaults(run=compare)
    options = parser.parse_args()
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
