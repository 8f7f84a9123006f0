"""Keep a fleet under load and faults for hours, and check responses and growth.

    python -m tests.long soak MODEL_DIR [--hours 1] [--logs DIR] [--plots docs/plots] \
        [--clock-error SECONDS] > report.md

Starts Valkey, one backend and two gateways. Clients send requests as in `chaos`, to all three APIs,
and some of them disconnect early. One more client sends twice as many requests as its key allows,
and another one attacks: trailers without end, stalled bodies and connections, abandoned requests,
and schemas that a walk without a bound would not finish.
One after another, the first gateway, its workers and its supervisor, and Valkey get a SIGKILL or a
SIGSTOP, and Valkey's memory is full; `chaos` does so with backends. The second gateway and the
backend run all the time: their memory, descriptors and threads are sampled, and the sequences and
grammars in the backend. With `--clock-error`, the clock of the first gateway is wrong by so many
seconds (libfaketime: `apt install faketime`).

The exit status is 1 if a response was wrong, if a request failed outside of a fault, if a limit was
exceeded by more than 1 %, if a server grows, or if requests are left in the end.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from functools import partial
from pathlib import Path

import redis.asyncio

from tests.long.chaos.attacks import PER_MINUTE, Attacks, LimitProbe
from tests.long.chaos.faults import FAULTS
from tests.long.chaos.fleet import Fleet
from tests.long.chaos.growth import Sample, draw, report, sample
from tests.long.chaos.load import Load
from tests.long.chaos.run import CLIENTS, SETTLED_SECONDS, STOPPED_SECONDS, inflict, make_key
from tests.long.chaos.session import EXPECTED, Found, conduct, counted, parser_of, table, violations
from tests.long.fuzz.run import left_in_gateway
from toolgate_verify.terms import Api

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
CANCELLED = 0.08
SCHEMAS = 1000
"""Schemas of new tools, beside the few that are drawn from a larger number."""
CACHES = {"TOOLGATE_MAX_GRAMMARS": "128", "TOOLGATE_CACHE_MB": "22"}
"""Bounds of the backend's caches that are reached in the first minutes. With the usual ones its
memory grows for hours, with each schema that it sees for the first time (docs/results/results.md),
which would hide a leak."""
FULL_BYTES = 1_000_000
"""Limit on Valkey's memory for a while. Its data take more."""


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--plots", type=Path, help="directory for plots of the growth")
    parser.add_argument("--clock-error", type=int, default=0, help="of the first gateway")
    options = parser.parse_args()
    clock = clock_environment(options.clock_error) if options.clock_error else {}
    return conduct(
        options,
        partial(Fleet, backends=1, backend_environment=CACHES, first_gateway_environment=clock),
        lambda fleet, bias: soak(fleet, bias, options.hours * 3600, options.plots),
    )


def clock_environment(seconds: int) -> dict[str, str]:
    """Variables with which a process has a clock that is wrong by `seconds`."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        raise SystemExit("--clock-error needs libfaketime. Install it: apt install faketime")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": f"{seconds:+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


async def soak(
    fleet: Fleet, bias: dict[str, float], seconds: float, directory: Path | None
) -> list[str]:
    """What is wrong. Prints the tables."""
    keys = [await make_key(fleet, f"team-{at}") for at in range(2)]
    limited = await make_key(fleet, "limited", rpm=PER_MINUTE)
    await asyncio.sleep(2)
    load = Load(
        fleet.gateway_urls,
        keys,
        bias,
        CLIENTS,
        apis=tuple(Api),
        cancelled=CANCELLED,
        schemas=SCHEMAS,
    )
    probe = LimitProbe(fleet.gateway_urls, limited)
    attacks = Attacks(fleet.gateway_urls, await make_key(fleet, "attacker"))
    samples: list[Sample] = []
    found: list[Found] = []
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        group.create_task(probe.run(load.ended))
        group.create_task(attacks.run(load.ended))
        sampling = group.create_task(sample_forever(fleet, samples))
        faults = [each for each in FAULTS if each.target.name.startswith(TARGETS)]
        for fault in itertools.cycle((*faults, None)):
            await asyncio.sleep(PAUSE)
            if time.monotonic() - began > seconds:
                break
            result = await (fill_valkey(fleet) if fault is None else inflict(fleet, fault))
            if result is not None:
                found.append(result)
        load.ended.set()
        sampling.cancel()
    grown, growing = report(samples)
    print(f"{table(found, load.outcomes)}\n\n{grown}\n")
    print(counted(load.outcomes, time.monotonic() - began))
    limits, exceeded = probe.report()
    attacked, broken = attacks.report()
    print(f"{limits}\n\n{attacked}\n")
    if directory is not None:
        draw(samples, directory)
    late = [f"{each.fault}: not back in time" for each in found if each.back is None]
    for url in fleet.gateway_urls:
        late += await left_in_gateway(url, fleet.master_key)
    return late + growing + exceeded + broken + violations(load.outcomes) + unexplained(load, found)


async def fill_valkey(fleet: Fleet) -> Found:
    """Valkey refuses to write for a while, as its memory is full."""
    began, url = time.monotonic(), fleet.redis_url
    async with redis.asyncio.Redis.from_url(url) as client:
        await client.config_set("maxmemory", FULL_BYTES)
        await asyncio.sleep(STOPPED_SECONDS)
        await client.config_set("maxmemory", 0)
    back = time.monotonic() - began
    await asyncio.sleep(SETTLED_SECONDS)
    return Found("Valkey's memory is full", began, time.monotonic(), back)


def unexplained(load: Load, found: list[Found]) -> list[str]:
    """Failed requests that ran during no fault."""
    return [
        f"{each.what} without a fault"
        for each in load.outcomes
        if each.what not in EXPECTED
        and not any(
            fault.began <= each.began + each.seconds and each.began <= fault.ended + AFTER
            for fault in found
        )
    ]


async def sample_forever(fleet: Fleet, samples: list[Sample]) -> None:
    while True:
        samples += await asyncio.to_thread(sample, fleet, STEADY)
        await asyncio.sleep(EVERY)
