"""Run a long test.

python -m tests.long --list
python -m tests.long NAME [options]
python -m tests.long NAME --help
"""

import sys

from tests.support import commands

CHECKS = {
    "chaos": "chaos.run",
    "soak": "chaos.soak",
    "rolling": "chaos.rolling",
    "fleet": "fleet.scenario",
    "scheduler": "scheduler.simulation",
    "walks": "walks",
    "fuzz": "fuzz.run",
    "hostile-calls": "hostile_calls",
    "hostile-loops": "hostile_loops.run",
}
"""Module of each test."""

if __name__ == "__main__":
    sys.exit(commands.run("tests.long", CHECKS, sys.argv[1:]))
