"""vLLM's scheduler with adversarial drafts, preemption, aborts and moving rows, and a fake model.

    python -m tests.long scheduler --seeds 200 --steps 5000 --out FILE   # 1,000,000 steps
    python -m tests.long scheduler --seed 13 --steps 5000                # one of them again
    python -m tests.long scheduler --shape forced --seeds 200            # drafts of forced text
    python -m tests.long scheduler --seed 13 --hash-seed 7               # in another order of sets

Each seed is an engine of its own: an adapter, a shape of drafts, sync or async scheduling, 1 to 64
rows, scarce blocks. Real parts of vLLM: Scheduler and AsyncScheduler with their KV-cache manager,
StructuredOutputManager, InputBatch with BatchUpdate, the application of bitmasks, the rejection
sampler's CPU kernels. Ours: logits, drafts, and the order of calls of the V1 model runner. At every
position that is sampled, the mask of the row is compared with that of an automaton of the same
request that never drafts and never moves. Every finished response is segmented, and its calls are
validated.

With --out, the outcome of each seed is a line of FILE, and seeds that it has are not run again. The
exit status is 1 if an invariant was violated.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.long.outcomes import Outcome, add_options, counted, keep, kept, violations

from .simulation import simulate

HASH_SEED = "0"
"""vLLM iterates over sets of request ids. They have the same order in each run with one seed of
Python's hashes."""


def report(outcomes: Sequence[Outcome]) -> str:
    return "\n".join([*counted(outcomes, "engines"), *violations(outcomes)])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.long scheduler",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=20, help="number of engines")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=500, help="steps of each engine")
    parser.add_argument(
        "--shape", choices=["forced"], help="all engines with drafts of forced text"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    add_options(parser)
    parser.add_argument("--hash-seed", default=HASH_SEED, help="PYTHONHASHSEED; 0 by default")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != options.hash_seed:
        # Threads of small tensor operations only wait for each other.
        quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}
        environment = {**quiet, **os.environ, "PYTHONHASHSEED": options.hash_seed}
        command = [sys.executable, "-m", "tests.long", "scheduler", *sys.argv[1:]]
        os.execve(sys.executable, command, environment)
    seeds = list(range(options.first, options.first + options.seeds))
    if options.seed is not None:
        seeds = [options.seed]
    done = kept(options.out, steps=str(options.steps), shape=options.shape or "any")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        jobs = [
            pool.submit(simulate, seed, options.steps, options.shape)
            for seed in seeds
            if seed not in done
        ]
        for job in as_completed(jobs):
            outcome = job.result()
            done[outcome.seed] = outcome
            keep(options.out, outcome)
    outcomes = [done[seed] for seed in seeds]
    print(report(outcomes))
    return 1 if any(each.violations for each in outcomes) else 0
