"""One run with a fleet: its options, its servers, and the report of what is wrong."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.long.chaos.fleet import Fleet, below
from tests.support import commands
from tests.support.servers.contenders import exit_on_sigterm
from toolgate_proxy.demo.model import closers

Run = Callable[[Fleet, dict[str, float]], Coroutine[Any, Any, list[str]]]
"""Takes the fleet and the bias of its requests. Returns what is wrong."""


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """`description`: the docstring of the test."""
    parser = commands.parser_of(description)
    parser.add_argument("model", type=Path)
    parser.add_argument("--logs", type=Path, help="directory for the servers' logs")
    return parser


def conduct(options: argparse.Namespace, make: Callable[[Path, Path], Fleet], run: Run) -> int:
    """Runs with the fleet that `make` returns for the model and a directory for logs. Prints what
    is wrong, and returns the exit status."""
    exit_on_sigterm()
    directory = below(options.logs or Path(tempfile.gettempdir()))
    fleet = make(options.model.resolve(), directory)
    try:
        with fleet:
            print("The servers are ready.", file=sys.stderr, flush=True)
            wrong = asyncio.run(run(fleet, closers(options.model)))
        wrong += [f"left running: {each}" for each in fleet.left()]
    finally:
        if options.logs is None:
            shutil.rmtree(directory, ignore_errors=True)
    for each, count in Counter(wrong).most_common():
        print(f"- {each}" + (f" ({count} times)" if count > 1 else ""))
    print(f"\n{len(wrong)} violations")
    return bool(wrong)
