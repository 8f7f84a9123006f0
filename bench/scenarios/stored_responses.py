"""Stored responses: memory in Redis per response, and the time of a retrieval.

A gateway over a scripted backend stores conversations with three tools, reasoning and a call. Every
tenth one has a second turn, and half of the responses are streamed. Then responses are retrieved,
one at a time. Compare the time with that of retrieving a model: the same gateway and
authentication, without the store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer, redis_server
from tests.support.servers.script import Script, call

PATH = "/v1/responses"
AT_ONCE = 16
WORDS = [
    f"{start}{end}" for start in "bcdfglmnprst" for end in ("ame", "ilo", "orun", "ethe", "usk")
]


def text(words: int, seed: int) -> str:
    made = random.Random(seed)
    return " ".join(made.choice(WORDS) for _ in range(words))


def tool(name: str) -> dict[str, Any]:
    properties = {
        field: {"type": "string", "description": f"The {field} of the {name}."}
        for field in ("city", "country", "unit", "language")
    }
    schema = {"type": "object", "properties": properties}
    return {
        "type": "function",
        "name": name,
        "description": f"Finds the {name}.",
        "parameters": schema,
    }


TOOLS = [tool(name) for name in ("weather", "traffic", "address")]


async def converse(http: httpx.AsyncClient, number: int) -> list[str]:
    """One or two turns. Returns the IDs of the responses."""
    stream = bool(number % 2)
    body = {"model": "tiny", "tools": TOOLS, "instructions": text(60, 0), "stream": stream}
    first = await created(http, {**body, "input": f"look {number} {text(60, number)}"})
    if number % 10:
        return [first["id"]]
    output = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": text(40, number)}
        for item in first["output"]
        if item["type"] == "function_call"
    ]
    second = await created(http, {**body, "input": output, "previous_response_id": first["id"]})
    return [first["id"], second["id"]]


async def created(http: httpx.AsyncClient, body: dict[str, Any]) -> Any:
    answer = await http.post(PATH, json=body)
    if answer.status_code == 503:  # a stall of the machine, longer than Redis' time limit
        print(f"once more after {answer.json()['error']['code']}", flush=True)
        await asyncio.sleep(1)
        return await created(http, body)
    answer.raise_for_status()
    if not body["stream"]:
        made = answer.json()
    else:
        last = answer.text.rstrip().rpartition("\ndata: ")[2]
        made = json.loads(last)["response"]
    if not made["store"]:
        print(f"once more after {made['toolgate']}", flush=True)
        return await created(http, body)
    return made


async def timed(work: Awaitable[object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    await work
    return 1000 * (time.perf_counter() - began)


async def measure(url: str, redis: RedisServer, conversations: int, reads: int) -> None:
    async with http_client(url, headers=bearer(MASTER_KEY), timeout=60) as http:
        await converse(http, 0)
        before = memory(redis)
        names: list[str] = []
        left = iter(range(1, conversations + 1))

        async def client() -> None:
            for number in left:
                names.extend(await converse(http, number))

        await asyncio.gather(*(client() for _ in range(AT_ONCE)))
        report_sizes(redis, memory(redis) - before, names)
        pick = random.Random(1)

        async def get(path: str) -> None:
            (await http.get(path)).raise_for_status()

        paths: dict[str, Callable[[], str]] = {
            "retrieve a model": lambda: "/v1/models/tiny",
            "retrieve a response": lambda: f"{PATH}/{pick.choice(names)}",
            "list its input": lambda: f"{PATH}/{pick.choice(names)}/input_items",
        }
        times: dict[str, list[float]] = {name: [] for name in paths}
        for _ in range(reads):  # in turn, because the load of the machine changes
            for name, path in paths.items():
                times[name].append(await timed(get(path())))
        for name, each in times.items():
            slow = statistics.quantiles(each, n=20)[-1]
            print(f"{name}: median {statistics.median(each):.2f} ms, p95 {slow:.2f} ms")


def memory(redis: RedisServer) -> int:
    return int(redis.client.info("memory")["used_memory"])


def report_sizes(redis: RedisServer, used: int, names: Sequence[str]) -> None:
    print(f"{len(names):,} responses: {used / len(names):,.0f} bytes of Redis' memory each")
    client = redis.client
    sizes: dict[str, list[int]] = {"record": [], "events": []}
    for key in client.scan_iter("toolgate:{responses:*", count=1000):
        last = key.rsplit(b":", 1)[-1]
        if last == b"events" or len(last) == 32:
            sizes["events" if last == b"events" else "record"].append(int(client.strlen(key)))
    for kind, found in sizes.items():
        print(f"{kind}: {len(found):,}, median {statistics.median(found):,.0f} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench stored-responses")
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--reads", type=int, default=3_000)
    options = parser.parse_args()
    thought = f"<think>{text(80, 2)}</think>"
    backend = FakeBackend()

    class Scripts(dict[str, Script]):
        def __contains__(self, name: object) -> bool:
            return True

        def __missing__(self, name: str) -> Script:
            if name.startswith("look"):
                return Script((thought + call("weather", {"city": "Oslo", "unit": "C"}),))
            return Script((thought + text(120, 3),))

    backend.scripts = Scripts()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(backend),
        redis_server() as redis,
        serving(
            ["--model", "tiny"], backend.url, Path(folder) / "log", redis.url,
            TOOLGATE_RESPONSES_QUOTA="1000000", TOOLGATE_RESPONSES_QUOTA_BYTES="4000000000",
        ) as gateway,
    ):  # fmt: skip
        asyncio.run(measure(gateway.url, redis, options.conversations, options.reads))
    return 0
