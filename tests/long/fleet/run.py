"""Simulate fleets of gateways with faults, and check limits, keys and grammars.

    python -m tests.long fleet --seeds 100 --days 10     # 1,000 days
    python -m tests.long fleet --seed 17 --days 10       # one of them again

Each seed is a fleet of its own, with its own faults. The exit status is 1 if an invariant was
violated; the seeds are printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from .scenario import Outcome, Profile, simulate

HASH_SEED = "0"
"""Sets of texts have the same order in each run."""


def report(outcomes: Sequence[Outcome], profile: Profile, seconds: float) -> str:
    """A summary in Markdown."""
    totals = {
        name: sum((Counter(getattr(each, name)) for each in outcomes), Counter())
        for name in ("checks", "faults", "requests")
    }
    violated = [each for each in outcomes if each.violations]
    lines = [
        f"{len(outcomes)} fleets of {profile.gateways} gateways, {len(outcomes) * profile.days:g} "
        f"simulated days ({profile.bursts_per_day} bursts of {profile.burst_seconds:g} s a day), "
        f"{seconds:.0f} s, {sum(each.compiles for each in outcomes):,} compiles",
        "",
        "| invariant | checks |",
        "|---|---|",
        *(f"| {name} | {count:,} |" for name, count in sorted(totals["checks"].items())),
        "",
        "Faults: " + ", ".join(f"{n:,} {name}" for name, n in totals["faults"].most_common()),
        "Requests: " + ", ".join(f"{n:,} {name}" for name, n in totals["requests"].most_common()),
        "",
        f"Violations: {sum(len(each.violations) for each in violated)}",
    ]
    for each in violated:
        lines.append(f"seed {each.seed} (python -m tests.long fleet --seed {each.seed}):")
        lines += [f"  {violation}" for violation in each.violations[:5]]
    return "\n".join(lines)


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        environment = os.environ | {"PYTHONHASHSEED": HASH_SEED}
        command = [sys.executable, "-m", "tests.long", "fleet", *sys.argv[1:]]
        os.execve(sys.executable, command, environment)
    parser = argparse.ArgumentParser(
        prog="python -m tests.long fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=10, help="number of fleets")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seed", type=int, help="one seed only")
    parser.add_argument("--days", type=float, default=1.0, help="simulated days of each fleet")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    seeds = list(range(options.first, options.first + options.seeds))
    if options.seed is not None:
        seeds = [options.seed]
    profile = Profile(days=options.days)
    began = time.perf_counter()
    with ProcessPoolExecutor(options.processes) as pool:
        outcomes = list(pool.map(simulate, seeds, [profile] * len(seeds)))
    print(report(outcomes, profile, time.perf_counter() - began))
    return 1 if any(each.violations for each in outcomes) else 0
