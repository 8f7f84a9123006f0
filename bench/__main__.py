"""Run a benchmark.

python -m bench --list
python -m bench NAME [options]
python -m bench NAME --help
"""

from __future__ import annotations

import sys

from tests.support import commands

BENCHMARKS = {
    "throughput": "throughput.run",
    "growth": "growth.run",
    "gateway-overhead": "gateway_overhead.run",
    "engine-steps": "engine_steps.run",
    "gpu-engine": "gpu_engine.run",
    "gpu-engine-pack": "gpu_engine.pack",
    "gpu-engine-bare": "gpu_engine.bare",
    "grammars": "grammars",
    "drafts": "drafts",
    "interference": "interference",
    "affinity": "affinity",
    "exactness": "exactness.run",
    "families": "families",
    "fleet-cost": "fleet_cost",
}
"""Module of each benchmark."""

if __name__ == "__main__":
    sys.exit(commands.run("bench", BENCHMARKS, sys.argv[1:]))
