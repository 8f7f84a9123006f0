"""The processes of the hostile MCP server, as servers of LiteLLM in this process."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.long.hostile_loops.load import HOSTILE, QUIET
from tests.support.litellm.mcp import serving


@asynccontextmanager
async def servers(calls: Path) -> AsyncIterator[None]:
    """Run both servers. `calls`: the file to which they write the calls that they get."""
    with ExitStack() as stack:
        config = {name: stack.enter_context(_server(name, calls)) for name in (HOSTILE, QUIET)}
        async with serving(**config):
            yield


@contextmanager
def _server(name: str, calls: Path) -> Iterator[dict[str, Any]]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        number = listener.fileno()
        command = [sys.executable, "-m", "tests.long.hostile_loops.server", str(number), str(calls)]
        process = subprocess.Popen([*command, name], pass_fds=[number], stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), "The server did not start."
            yield {"transport": "http", "url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}
        finally:
            process.terminate()
            process.wait(20)
