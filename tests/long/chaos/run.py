"""Kill and stop each process of a fleet in turn, under load.

    python -m tests.long chaos MODEL_DIR [--minutes 12] [--only TEXT] [--logs DIR] > table.md

Starts Valkey, two backends and two gateways, one of them with two worker processes. Clients send
streamed and non-streamed requests with known and new tools and two virtual keys. Meanwhile each
process gets a SIGKILL, and then a SIGSTOP that a SIGCONT follows after a few seconds. Servers that
have ended are started again, as a supervisor of services would do.

Every response is checked. The exit status is 1 if a call was invalid, if a half response looked
like a whole one, if a valid request got a 4xx, if a request took more than 30 s, if processes were
not back in time, or if a process is left in the end. Prints a table in Markdown. All servers listen
on the loopback address only.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.support.contenders import exit_on_sigterm
from tests.long.chaos.fleet import FAULTS, Fault, Fleet, below
from tests.long.chaos.load import Load, Outcome
from tests.support import commands, markdown
from tests.support.servers import virtual_keys
from toolgate_proxy.ops.demo.model import closers

CLIENTS = 4
STOPPED_SECONDS = 6.0
"""Time between SIGSTOP and SIGCONT."""
SETTLED_SECONDS = 6.0
"""Time of load before each fault, and after its processes are back."""
BACK_SECONDS = 180.0
"""Time limit for the return of the processes."""
APPEAR_SECONDS = 30.0
"""Time limit for the first appearance of processes that start when they are needed."""


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--minutes", type=float, default=12, help="no fault begins later")
    parser.add_argument("--only", default="", help="faults whose names contain this text")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if options.only in fault.name]
    seconds = options.minutes * 60
    return conduct(options, Fleet, lambda fleet, bias: run(fleet, faults, bias, seconds))


@asynccontextmanager
async def loaded(
    fleet: Fleet, bias: dict[str, float], urls: Sequence[str], **options: Any
) -> AsyncIterator[tuple[Load, list[Found]]]:
    """The load, and a list of faults to be filled. Prints the table in the end. `urls` may change
    meanwhile."""
    keys = [await make_key(fleet, f"team-{at}") for at in range(2)]
    await asyncio.sleep(2)  # gateways poll the keys
    load, found = Load(urls, keys, bias, CLIENTS, **options), list[Found]()
    loading = asyncio.create_task(load.run())
    began = time.monotonic()
    yield load, found
    load.ended.set()
    await loading
    print(f"{markdown.table(HEAD, (each.row(load.outcomes) for each in found))}\n")
    counts = Counter(each.what for each in load.outcomes).most_common()
    listed = ", ".join(f"{count} × {what}" for what, count in counts)
    minutes = (time.monotonic() - began) / 60
    print(f"{len(load.outcomes):,} requests in {minutes:.1f} minutes: {listed}.")


async def run(
    fleet: Fleet, faults: list[Fault], bias: dict[str, float], seconds: float
) -> list[str]:
    """What is wrong. Prints the table."""
    wrong: list[str] = []
    async with loaded(fleet, bias, fleet.gateway_urls) as (load, found):
        began = time.monotonic()
        for fault in faults:
            if time.monotonic() - began > seconds:
                wrong.append(f"no time was left for {fault.name}")
                continue
            await asyncio.sleep(SETTLED_SECONDS)
            result = await inflict(fleet, fault)
            if result is None:
                wrong.append(f"no process was found for {fault.name}")
                continue
            found.append(result)
            print(" | ".join(result.row(load.outcomes)), file=sys.stderr, flush=True)
    return wrong + violations(load.outcomes, found)


async def inflict(fleet: Fleet, fault: Fault) -> Found | None:
    """Sends the signal, and waits until all processes are back. None if there is no process."""
    targets = await appeared(fleet, fault, APPEAR_SECONDS)
    if not targets:
        return None
    expected = 1 if fault.target.on_demand else len(targets)
    if fault.target.first_only:
        targets = targets[:1]
    began = time.monotonic()
    for process in targets:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(fault.signal)
    if fault.signal == signal.SIGSTOP:
        await asyncio.sleep(STOPPED_SECONDS)
        for process in targets:
            with suppress(psutil.NoSuchProcess):
                process.resume()
    back = None
    while back is None and time.monotonic() - began < BACK_SECONDS:
        ready = await asyncio.to_thread(fleet.is_ready)
        if ready and len(await appeared(fleet, fault, 0)) >= expected:
            back = time.monotonic() - began
        await asyncio.sleep(0.2)
    await asyncio.sleep(SETTLED_SECONDS)
    return Found(fault.name, began, time.monotonic(), back)


async def appeared(fleet: Fleet, fault: Fault, seconds: float) -> list[psutil.Process]:
    """The running processes of a target, when there are any."""
    ends = time.monotonic() + seconds
    while True:
        found = await asyncio.to_thread(fault.target.find, fleet)
        running = [each for each in found if runs(each)]
        if running or time.monotonic() >= ends:
            return running
        await asyncio.sleep(0.1)


def runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED))
    except psutil.NoSuchProcess:
        return False


LIMITS = {"rpm": 100_000, "tpm": 100_000_000, "max_parallel_requests": 64}
"""More than the load needs."""


async def make_key(fleet: Fleet, alias: str, **limits: int) -> str:
    """A virtual key with limits, so that every request uses Redis."""
    sent, _ = await virtual_keys.make_key(fleet.redis_url, alias=alias, **(limits or LIMITS))
    return sent


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


EXPECTED = ("ok", "disconnected")
"""Outcomes that need no fault. Clients disconnect on purpose."""
LONGEST = 30.0
"""Seconds that a request may take. One of the two backends always works."""


@dataclass(frozen=True)
class Found:
    """One fault: when it began, and after how many seconds its processes were back."""

    fault: str
    began: float
    ended: float
    back: float | None

    def row(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Requests belong to the fault during which they ended."""
        mine = [each for each in outcomes if self.began <= each.began + each.seconds < self.ended]
        failed = [each for each in mine if each.what not in EXPECTED]
        counts = Counter(each.what for each in failed)
        last = max((each.began + each.seconds - self.began for each in failed), default=None)
        return [
            self.fault,
            str(len(mine)),
            ", ".join(f"{count} × {what}" for what, count in counts.most_common()) or "none",
            f"{max((each.seconds for each in mine), default=0):.1f}",
            "-" if last is None else f"{last:.1f}",
            "not in time" if self.back is None else f"{self.back:.1f}",
        ]


HEAD = (
    *("fault", "requests", "failed", "longest, s"),
    *("last failure after, s", "processes back after, s"),
)


def violations(outcomes: Sequence[Outcome], found: Sequence[Found]) -> list[str]:
    wrong = [f"{each.fault}: not back in time" for each in found if each.back is None]
    wrong += [f"{each.what}: {what}" for each in outcomes for what in each.violations]
    return wrong + [
        f"a request took {each.seconds:.1f} s ({each.what})"
        for each in outcomes
        if each.seconds > LONGEST
    ]
