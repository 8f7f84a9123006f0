"""Runs checks against the reference server."""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from tests.verify.faults.fault import Fault
from tests.verify.reference_server.app import KEY, MODEL, ReferenceServer
from tests.verify.transport import InProcess
from toolgate_verify.check import Check
from toolgate_verify.engine.client import Client
from toolgate_verify.engine.run import Run, run
from toolgate_verify.engine.target import Target


async def verify(checks: Sequence[Check], fault: Fault | None = None, scenario: str = "") -> Run:
    """The results against the server, with a fault in one scenario."""
    app = ReferenceServer(fault, scenario)
    target = Target("http://reference/v1", MODEL, KEY)
    async with httpx.AsyncClient(transport=InProcess(app)) as http:
        return await run(Client(target, http), checks)
