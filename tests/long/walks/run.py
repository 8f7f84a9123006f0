"""Walk at random through the masks of hostile tools, in all dialects, and validate each call.

    python -m tests.long walks --steps 10000000 --out FILE
    python -m tests.long walks --seed 17                      # one of them again

Each seed is a dialect, with its marks as tokens or as text, and one to three tools with random
schemas. Tokens are chosen of those that the masks allow: at random, with a liking for ends, or the
same again and again. Drafts are accepted and taken back between them. Reported are masks that allow
nothing, allowed tokens that are refused, masks that differ after a rollback, calls that violate a
schema which masks enforce completely, and required calls that do not end within their budget.

With --out, the outcome of each seed is a line of FILE, and seeds that it has are not run again. The
exit status is 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import count, islice

from tests.long.outcomes import Outcome, add_options, counted, keep, kept, violations
from tests.long.walks.walk import SAME_DIALECT, run


def report(outcomes: Sequence[Outcome]) -> str:
    return "\n".join([*counted(outcomes, "seeds"), *violations(outcomes)])


def walks(processes: int, done: dict[int, Outcome]) -> Iterator[Outcome]:
    """Outcomes of further seeds, without end."""
    seeds = (seed for seed in count() if seed not in done)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        while True:
            jobs = [pool.submit(run, seed) for seed in islice(seeds, SAME_DIALECT)]
            try:
                for job in as_completed(jobs):
                    yield job.result()
            finally:
                for job in jobs:
                    job.cancel()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.long walks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--steps", type=int, default=100_000, help="token steps in all")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    add_options(parser)
    options = parser.parse_args()
    done = kept(options.out)
    if options.seed is not None:
        done = {options.seed: run(options.seed)}
    else:
        steps = sum(each.counts["token steps"] for each in done.values())
        found = walks(options.processes, dict(done))
        while steps < options.steps:
            outcome = next(found)
            done[outcome.seed] = outcome
            steps += outcome.counts["token steps"]
            keep(options.out, outcome)
        found.close()  # type: ignore[attr-defined]
    outcomes = [done[seed] for seed in sorted(done)]
    print(report(outcomes))
    return 1 if any(each.violations for each in outcomes) else 0
