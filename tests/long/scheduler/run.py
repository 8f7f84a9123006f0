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

import os
from functools import partial

from tests.long.outcomes import (
    HASH_SEED,
    Runs,
    parser_of,
    require_hash_seed,
    seeds_of,
    side_by_side,
)

from .simulation import simulate


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of engines")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=500, help="steps of each engine")
    parser.add_argument(
        "--shape", choices=["forced"], help="all engines with drafts of forced text"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--hash-seed", default=HASH_SEED, help="PYTHONHASHSEED; 0 by default")
    options = parser.parse_args()
    # vLLM iterates over sets of request ids. Threads of small tensor operations only wait for each
    # other.
    require_hash_seed(options.hash_seed, VLLM_LOGGING_LEVEL="ERROR", OMP_NUM_THREADS="1")
    runs = Runs(options.out, steps=str(options.steps), shape=options.shape or "any")
    work = partial(simulate, steps=options.steps, shape=options.shape)
    for outcome in side_by_side(work, runs.missing(seeds_of(options)), options.processes):
        runs.add(outcome)
    return runs.report("engines")
