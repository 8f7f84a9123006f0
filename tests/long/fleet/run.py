"""Simulate fleets of gateways with faults, and check limits, keys and grammars.

    python -m tests.long fleet --seeds 100 --days 10     # 1,000 days
    python -m tests.long fleet --seed 17 --days 10       # one of them again

Each seed is a fleet of its own, with its own faults. The exit status is 1 if an invariant was
violated; the seeds are printed.
"""

from __future__ import annotations

import os
from functools import partial

from tests.long.fleet.scenario import Profile, simulate
from tests.long.outcomes import Runs, parser_of, require_hash_seed, seeds_of, side_by_side


def main() -> int:
    require_hash_seed()
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="number of fleets")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--days", type=float, default=1.0, help="simulated days of each fleet")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    profile = Profile(days=options.days)
    runs = Runs(options.out, days=f"{options.days:g}")
    work = partial(simulate, profile=profile)
    for outcome in side_by_side(work, runs.missing(seeds_of(options)), options.processes):
        runs.add(outcome)
    return runs.report(
        f"fleets of {profile.gateways} gateways",
        f"Simulated days: {len(runs.done) * profile.days:g}, with {profile.bursts_per_day} bursts "
        f"of {profile.burst_seconds:g} s each",
    )
