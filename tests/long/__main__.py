"""Run a long test.

python -m tests.long --list
python -m tests.long NAME [options]
python -m tests.long NAME --help
"""

from __future__ import annotations

import sys

from tests.support import commands

CHECKS = {
    "chaos": "chaos.run",
    "soak": "chaos.soak",
    "rolling": "chaos.rolling",
    "fleet": "fleet.run",
    "scheduler": "scheduler.simulation",
    "walks": "walks.walk",
    "transliterated": "transliterated",
    "fuzz": "fuzz.run",
    "hostile-calls": "hostile_calls.run",
    "hostile-loops": "hostile_loops.run",
    "forced-calls": "forced_calls",
    "exactness": "exactness.run",
    "families": "families",
    "verify": "verify",
}
"""Module of each test."""

if __name__ == "__main__":
    sys.exit(commands.run("tests.long", CHECKS, sys.argv[1:]))
