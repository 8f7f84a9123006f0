"""Keep a fleet under load and faults for hours, and check responses and growth.

    python -m bench soak MODEL_DIR [--hours 1] [--logs DIR] > report.md

Starts Valkey, one backend and two gateways. Clients send requests as in `chaos`. One after another,
the first gateway, its workers and its supervisor, and Valkey get a SIGKILL or a SIGSTOP; `chaos`
does so with backends. The second gateway and the backend run all the time: their memory,
descriptors and threads are sampled. The exit status is 1 if a response was wrong, if a request
failed outside of a fault, or if a server grows.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from functools import partial

from bench.chaos.faults import FAULTS
from bench.chaos.fleet import Fleet
from bench.chaos.growth import Sample, report, sample
from bench.chaos.load import Load
from bench.chaos.report import Found, counted, table, violations
from bench.chaos.run import CLIENTS, inflict, make_key
from bench.chaos.session import conduct, parser_of

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
    parser = parser_of(__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    options = parser.parse_args()
    seconds = options.hours * 3600
    return conduct(
        options, partial(Fleet, backends=1), lambda fleet, bias: soak(fleet, bias, seconds)
    )


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
    print(counted(load.outcomes, time.monotonic() - began))
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
