"""The programs of `examples/` against a running gateway whose backend answers by script."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.script import Script, call

EXAMPLES = Path(__file__).parents[4] / "examples"
CITIES = ("Oslo", "Bern", "Rome", "Lima")


async def test_early_tools_runs_every_tool_both_ways(gateway: str, backend: FakeBackend) -> None:
    calls = "\n".join(call("get_weather", {"city": city}) for city in CITIES)
    backend.turns += [Script((calls,), pause=0.001) for _ in range(2)]
    command = [str(EXAMPLES / "early_tools.py"), f"{gateway}/v1", MASTER_KEY, "tiny", "0.01"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    late, early = printed.decode().splitlines()
    assert late.startswith("4 tools after the stream: ")
    assert early.startswith("4 tools during the stream: ")
