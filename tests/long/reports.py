"""Reports of runs against the reference server."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

from tests.verify.faults.table import fault_of
from tests.verify.harness import verify
from tests.verify.reference_server.app import KEY, MODEL
from toolgate_verify.catalogue import select
from toolgate_verify.engine.target import Target
from toolgate_verify.report.record import report

CHECKS = select(only=["text", "calls", "choice.allowed_tools", "schema.enum"])


@cache
def _text(broken: str, suite: str) -> str:
    if broken:
        [check] = [each for each in CHECKS if each.id == broken]
        run = asyncio.run(verify(CHECKS, fault_of(check), check.scenario.name))
    else:
        run = asyncio.run(verify(CHECKS))
    target = Target("http://reference/v1", MODEL, KEY)
    return json.dumps(report(run, target, {"suite": suite}))


def report_of(broken: str = "", suite: str = "quick") -> dict[str, Any]:
    """The report of a server that keeps all rules, or that has the fault of one check."""
    made: dict[str, Any] = json.loads(_text(broken, suite))
    return made
