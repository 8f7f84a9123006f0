"""Runs of seeds: side by side, kept in a file so that they can go on, and reported."""

import argparse
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tests.support import commands, markdown

HASH_SEED = "0"
"""Of Python's hashes. With it, sets of texts have the same order in each run."""


@dataclass
class Outcome:
    """What the run of one seed counted, and what was wrong in it."""

    seed: int
    seconds: float = field(default=0.0, compare=False)
    labels: dict[str, str] = field(default_factory=dict)
    """What the seed stands for, such as a family, and options that it was run with."""
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


class Runs:
    """The outcomes by seed. `out`: the file in which they are kept, if there is one. Those in it
    with the labels count as run."""

    def __init__(self, out: Path | None = None, **labels: str) -> None:
        self._out = out
        self.done = kept(out, **labels)

    def add(self, outcome: Outcome) -> None:
        """Add an outcome, also to the file."""
        self.done[outcome.seed] = outcome
        if self._out is not None:
            with self._out.open("a") as file:
                # `asdict` would make a Counter of a Counter's items.
                file.write(json.dumps(vars(outcome)) + "\n")

    def reread(self) -> None:
        """Add what other runs have written to the file."""
        self.done |= kept(self._out)

    def missing(self, seeds: Iterable[int]) -> Iterator[int]:
        return (seed for seed in seeds if seed not in self.done)

    def total(self, name: str) -> int:
        return sum(each.counts[name] for each in self.done.values())

    def report(self, kind: str, *more: str) -> int:
        """Print the number of runs, which are of a kind, all that was counted, `more` lines, and
        each violation with its seed. Return the exit status."""
        outcomes = [self.done[seed] for seed in sorted(self.done)]
        totals = sum((each.counts for each in outcomes), Counter[str]())
        seconds = sum(each.seconds for each in outcomes)
        wrong = [f"seed {each.seed}: {what}" for each in outcomes for what in each.violations]
        print(f"{len(outcomes):,} {kind}, {seconds:,.0f} s of one core\n")
        rows = ((name, f"{count:,}") for name, count in sorted(totals.items()))
        print(markdown.table(["counted", "number"], rows))
        print("", *more, f"Violations: {len(wrong)}", *wrong, sep="\n")
        return 1 if wrong else 0


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """The options that all programs with seeds have. `doc`: the program's docstring."""
    parser = commands.parser_of(doc)
    parser.add_argument("--seed", type=int, help="one seed only")
    parser.add_argument("--out", type=Path, help="file of outcomes, to go on from")
    return parser


def kept(path: Path | None, **labels: str) -> dict[int, Outcome]:
    """The outcomes with the labels in the file, if there is one, by seed."""
    if path is None or not path.exists():
        return {}
    lines = map(json.loads, path.read_text().splitlines())
    found = (Outcome(**{**line, "counts": Counter(line["counts"])}) for line in lines)
    return {outcome.seed: outcome for outcome in found if labels.items() <= outcome.labels.items()}


def side_by_side(
    run: Callable[[int], Outcome], seeds: Iterable[int], processes: int, at_once: int = 64
) -> Generator[Outcome, None, None]:
    """The outcomes of the seeds, as they end. `at_once`: how many seeds are given to the processes
    at once."""
    seeds = iter(seeds)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        while jobs := [pool.submit(run, seed) for seed in islice(seeds, at_once)]:
            try:
                for job in as_completed(jobs):
                    yield job.result()
            finally:
                for job in jobs:
                    job.cancel()


def require_hash_seed(seed: str = HASH_SEED, **environment: str) -> None:
    """Run the program again, with the `environment`, unless Python's hashes have this seed."""
    if os.environ.get("PYTHONHASHSEED") != seed:
        variables = {**environment, **os.environ, "PYTHONHASHSEED": seed}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], variables)


def seeds_of(options: argparse.Namespace) -> Sequence[int]:
    """Those that `--seed`, or `--first` and `--seeds`, name."""
    if options.seed is not None:
        return [options.seed]
    return range(options.first, options.first + options.seeds)
