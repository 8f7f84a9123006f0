"""Restart each backend and each gateway of a fleet in turn, under load.

    python -m tests.long rolling MODEL_DIR [--logs DIR] > table.md

Starts Valkey, two backends and two gateways, and restarts them as an upgrade does
(docs/guide/upgrading.md). Backends get a SIGTERM and finish their responses (`--shutdown-timeout`).
Gateways first get no new requests, as from a load balancer, and then a SIGTERM. The exit status is
1 if a request failed or a response was wrong.
"""

import asyncio
import signal
import time
from functools import partial

from tests.long.chaos.fleet import Fleet, Server
from tests.long.chaos.run import SETTLED_SECONDS, Found, conduct, loaded, parser_of, violations

DEREGISTERED_SECONDS = 3.0
"""Time without new requests before a gateway gets its SIGTERM: `preStop` in deploy/helm."""
BACK_SECONDS = 600.0
"""Time limit for the start of a server."""
SHUTDOWN_SECONDS = 60
"""Time limit for the responses of a backend that ends."""


def main() -> int:
    make = partial(
        Fleet,
        backend_options=("--shutdown-timeout", str(SHUTDOWN_SECONDS)),
        gateway_environment={"TOOLGATE_REDIS_TIMEOUT": "5"},
    )
    return conduct(parser_of(__doc__).parse_args(), make, restart_all)


async def restart_all(fleet: Fleet, bias: dict[str, float]) -> list[str]:
    """What is wrong. Prints the table."""
    urls = list(fleet.gateway_urls)
    async with loaded(fleet, bias, urls) as (load, found):
        for server in fleet.backends:
            await asyncio.sleep(SETTLED_SECONDS)
            found.append(await restart(fleet, server))
        for server, url in zip(fleet.gateways, fleet.gateway_urls, strict=True):
            await asyncio.sleep(SETTLED_SECONDS)
            urls.remove(url)
            await asyncio.sleep(DEREGISTERED_SECONDS)
            found.append(await restart(fleet, server))
            urls.append(url)
        await asyncio.sleep(SETTLED_SECONDS)
    failed = [f"failed: {each.what}" for each in load.outcomes if each.what != "ok"]
    return failed + violations(load.outcomes, found)


async def restart(fleet: Fleet, server: Server) -> Found:
    """Sends a SIGTERM, and waits until the server's successor accepts requests."""
    starts = server.starts
    began = time.monotonic()
    server.family()[0].send_signal(signal.SIGTERM)
    back = None
    while back is None and time.monotonic() - began < BACK_SECONDS:
        await asyncio.sleep(0.2)
        if server.starts > starts and await asyncio.to_thread(fleet.is_ready):
            back = time.monotonic() - began
    return Found(f"restart of {server.name}", began, time.monotonic(), back)
