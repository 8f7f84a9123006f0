"""Keep a fleet under load and faults for hours, and check responses and growth.

    python -m bench soak MODEL_DIR [--hours 1] [--logs DIR] > report.md

Starts Valkey, one backend and two gateways. Clients send requests as in `chaos`. One after another,
the first gateway, its workers and its supervisor, and Valkey get a SIGKILL or a SIGSTOP; `chaos`
does so with backends. The second gateway and the backend run all the time: their memory,
descriptors and threads are sampled. The exit status is 1 if a response was wrong, if a request
failed outside of a fault, or if a server grows.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.chaos.faults import FAULTS
from bench.chaos.fleet import Fleet, below
from bench.chaos.growth import Sample, report, sample
from bench.chaos.load import Load
from bench.chaos.report import Found, table, violations
from bench.chaos.run import CLIENTS, inflict, make_key
from bench.support.contenders import exit_on_sigterm
from toolgate_proxy.demo.run import closers

STEADY = ("backend-1", "gateway-2")
TARGETS = (
    "gateway worker",
    "gateway supervisor",
    "Valkey",
    "validation workers",
    "quarantine workers",
)
PAUSE = 20.0
"""Seconds of load between two faults."""
EVERY = 10.0
"""Seconds between two samples."""
AFTER = 15.0
"""Seconds after a fault in which a failed request is its consequence."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--logs", type=Path, help="directory for the servers' logs")
    options = parser.parse_args()
    exit_on_sigterm()
    directory = below(options.logs or Path(tempfile.gettempdir()))
    fleet = Fleet(options.model.resolve(), directory, backends=1)
    try:
        with fleet:
            print("The servers are ready.", file=sys.stderr, flush=True)
            wrong = asyncio.run(soak(fleet, closers(options.model), options.hours * 3600))
        wrong += [f"left running: {each}" for each in fleet.left()]
    finally:
        if options.logs is None:
            shutil.rmtree(directory, ignore_errors=True)
    for each, count in Counter(wrong).most_common():
        print(f"- {each}" + (f" ({count} times)" if count > 1 else ""))
    print(f"\n{len(wrong)} violations")
    return bool(wrong)


async def soak(fleet: Fleet, bias: dict[str, float], seconds: float) -> list[str]:
    """What is wrong. Prints the tables."""
    keys = [await make_key(fleet, f"team-{at}") for at in range(2)]
    await asyncio.sleep(2)
    load = Load(fleet.gateway_urls, keys, bias, CLIENTS)
    samples: list[Sample] = []
    found: list[Found] = []
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        sampling = group.create_task(sample_forever(fleet, samples))
        faults = [each for each in FAULTS if each.target.name.startswith(TARGETS)]
        for fault in itertools.cycle(faults):
            await asyncio.sleep(PAUSE)
            if time.monotonic() - began > seconds:
                break
            if (result := await inflict(fleet, fault)) is not None:
                found.append(result)
        load.ended.set()
        sampling.cancel()
    grown, growing = report(samples)
    print(f"{table(found, load.outcomes)}\n\n{grown}\n")
    counts = Counter(each.what for each in load.outcomes)
    listed = ", ".join(f"{count} × {what}" for what, count in counts.most_common())
    minutes = (time.monotonic() - began) / 60
    print(f"{len(load.outcomes):,} requests in {minutes:.1f} minutes: {listed}.")
    late = [f"{each.fault}: not back in time" for each in found if each.back is None]
    return late + growing + violations(load.outcomes) + unexplained(load, found)


def unexplained(load: Load, found: list[Found]) -> list[str]:
    """Failed requests that ran during no fault."""
    return [
        f"{each.what} without a fault"
        for each in load.outcomes
        if each.what != "ok"
        and not any(
            fault.began <= each.began + each.seconds and each.began <= fault.ended + AFTER
            for fault in found
        )
    ]


async def sample_forever(fleet: Fleet, samples: list[Sample]) -> None:
    while True:
        samples += await asyncio.to_thread(sample, fleet, STEADY)
        await asyncio.sleep(EVERY)
