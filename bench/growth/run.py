"""Cost of enforcement by number of tools, streams and tokens, and memory by number of schemas.

    python -m bench growth MODEL_DIR [--only tools,streams,output,schemas,deferred,agents]
        [--rounds N] [--schemas N] [--every N] [--calls] [--requests N] > report.md

Parts:

- tools: time to the first token with all grammars loaded, and ms per token, for 1 to 300 tools
- streams: tokens per second of 1 to 128 streams
- output: ms per token as one response grows to 10,000 tokens
- schemas: memory of a backend that loads `--schemas` different schemas (schemas.py)
- deferred: `--requests` pairs of requests with 10 and with 10,000 tools (deferred.py)
- agents: prompts of coding agents with 40 tools (agents.py), only if it is named

The first three run on one backend, and compare enforced requests with the same requests without
enforcement. Rounds are interleaved. Reported are the median ratio of the rounds and its 95 %
bootstrap interval. The tools are BFCL's smallest with two strings (`$TOOLGATE_SHARED/data`). With
random weights, the strings are long. Prints Markdown.
"""

import argparse
import asyncio
import json
import secrets
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import httpx

from bench.growth import agents, deferred, schemas
from bench.growth.load import Batch, Load, Pair
from bench.support.contenders import exit_on_sigterm, running
from bench.support.ratios import ratio
from bench.support.tools import long_tool, small_tools
from tests.support.markdown import table
from toolgate_proxy.ops.stack.processes import free_port

TOOLS = (1, 8, 30, 60, 150, 300)
BATCHES = {1: 2, 16: 1}
"""Batches per round, by number of concurrent streams."""
STREAMS = (1, 8, 32, 64, 128)
SET = 8
"""Tools per request in the parts `streams` and `output`."""
TOKENS = 96
"""Tokens per response in the parts `tools` and `streams`."""
MARKS = (100, 1_000, 3_000, 10_000)
SLICE = 250
"""Maximum number of tokens of a slice of the part `output`."""
CONTEXT = MARKS[-1] + 512
"""More than the tiny models' configuration allows. With random weights that is harmless."""
FLAGS = (
    *("--max-num-seqs", str(max(STREAMS)), "--max-model-len", str(CONTEXT)),
    *("--hf-overrides", json.dumps({"max_position_embeddings": CONTEXT})),
)
KEY = secrets.token_urlsafe(24)

Found = Mapping[int, Sequence[Pair]]
"""Pairs by tools or streams."""
Part = Callable[[Load, int], Awaitable[str]]


async def tools_part(load: Load, rounds: int) -> str:
    tools = small_tools(max(TOOLS))
    candidates = {size: await load.backend.load(tools[:size]) for size in TOOLS}
    found: dict[int, dict[int, list[Pair]]] = {
        streams: {size: [] for size in TOOLS} for streams in BATCHES
    }
    for streams, by_size in found.items():
        for size in by_size:  # warm up caches
            await load.pair(candidates[size], streams, TOKENS, 0)
    for number in range(rounds):
        for streams, by_size in found.items():
            for size, pairs in by_size.items():
                for again in range(BATCHES[streams]):
                    pair = await load.pair(candidates[size], streams, TOKENS, number + again)
                    pairs.append(pair)
    rows = [
        [streams, len(candidates[size]), *compared(pairs, first_ms), *compared(pairs, token_ms)]
        for streams, by_size in found.items()
        for size, pairs in by_size.items()
    ]
    head = ["streams", "tools", *columns("first token, ms"), *columns("ms per token")]
    return f"{table(head, rows)}\n\n{lengths(list(found.values()))}"


async def streams_part(load: Load, rounds: int) -> str:
    candidates = await load.backend.load(small_tools(SET))
    found: dict[int, list[Pair]] = {streams: [] for streams in STREAMS}
    for streams in STREAMS:
        await load.pair(candidates, streams, TOKENS, 0)
    for number in range(rounds):
        for streams, pairs in found.items():
            pairs.append(await load.pair(candidates, streams, TOKENS, number))
    rows = [[streams, *compared(pairs, per_second, digits=0)] for streams, pairs in found.items()]
    head = ["streams", *columns("tokens/s")]
    return f"{table(head, rows)}\n\n{SET} tools. {lengths([found])}"


async def output_part(load: Load, rounds: int) -> str:
    """Measure long responses. A shorter length is the beginning of a long response. A third of the
    rounds is used, because each takes long."""
    candidates = await load.backend.load([long_tool()])
    await load.pair(candidates, 1, MARKS[1], 0)
    pairs = [
        await load.pair(candidates, 1, MARKS[-1], number) for number in range(max(1, rounds // 3))
    ]
    enforced = [pair.enforced.streams[0] for pair in pairs]
    free = [pair.free.streams[0] for pair in pairs]
    longest = min(stream.tokens for stream in [*enforced, *free])
    rows: list[list[object]] = []
    for start, mark in pairwise([1, *(mark for mark in MARKS if mark <= longest)]):
        size = min(SLICE, (mark - start) // 4)
        whole = [[stream.until(mark) / mark for stream in each] for each in (enforced, free)]
        parts = [
            [ms for stream in each for ms in stream.slices(start, mark, size)]
            for each in (enforced, free)
        ]
        cells = [
            *comparison(whole[0], whole[1]),
            f"{start:,}–{mark:,}",
            *comparison(parts[0], parts[1]),
        ]
        rows.append([f"{mark:,}", *cells])
    head = ["response tokens", *columns("ms per token"), "slice", *columns("ms per token")]
    counted = f"{len(pairs)} responses of each kind; the shortest had {longest:,} tokens."
    return f"{table(head, rows)}\n\n{counted}"


def first_ms(batch: Batch) -> float:
    return batch.first_ms


def token_ms(batch: Batch) -> float:
    return batch.token_ms


def per_second(batch: Batch) -> float:
    return batch.tokens_per_second


def compared(
    pairs: Sequence[Pair], value: Callable[[Batch], float], digits: int = 2
) -> list[object]:
    enforced, free = [value(pair.enforced) for pair in pairs], [value(pair.free) for pair in pairs]
    return comparison(enforced, free, digits)


def comparison(enforced: Sequence[float], free: Sequence[float], digits: int = 2) -> list[object]:
    """Return the cells for `columns`."""
    cells = [f"{statistics.median(each):,.{digits}f}" for each in (enforced, free)]
    return [*cells, ratio(enforced, free)]


def columns(what: str) -> list[str]:
    return [f"{what}: enforced", "free", "enforced ÷ free"]


def lengths(found: Sequence[Found]) -> str:
    """Summary of the response lengths. An enforced response can end early, a free one can't."""
    tokens = [
        stream.tokens
        for by_size in found
        for pairs in by_size.values()
        for pair in pairs
        for stream in pair.enforced.streams
    ]
    return (
        f"Responses of at most {TOKENS} tokens. Enforced: {statistics.mean(tokens):.1f} tokens on "
        f"average, {min(tokens)} in the shortest."
    )


PARTS: Mapping[str, Part] = {
    "tools": tools_part,
    "streams": streams_part,
    "output": output_part,
}
"""The parts that need a server."""
SCHEMAS, DEFERRED, AGENTS = "schemas", "deferred", "agents"


async def served(url: str, parts: Sequence[str], rounds: int) -> None:
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, limits=limits, timeout=600, trust_env=False
    ) as http:
        load = Load(http)
        for name in parts:
            began = time.monotonic()
            text = await PARTS[name](load, rounds)
            print(f"\n### {name}\n\n{text}", flush=True)
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument(
        "--only", default=",".join((*PARTS, SCHEMAS, DEFERRED)), help="names of parts"
    )
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--schemas", type=int, default=40_000, help="number of schemas to load")
    parser.add_argument("--every", type=int, default=2_000, help="schemas per row")
    parser.add_argument("--calls", action="store_true", help="write a call of each schema")
    parser.add_argument("--requests", type=int, default=500, help="pairs with deferred tools")
    options = parser.parse_args()
    exit_on_sigterm()
    parts, model = options.only.split(","), options.model.resolve()
    if unknown := set(parts) - {*PARTS, SCHEMAS, DEFERRED, AGENTS}:
        parser.error(f"argument --only: unknown parts: {', '.join(sorted(unknown))}")
    if on_server := [name for name in parts if name in PARTS]:
        port = free_port()
        flags, env = (*FLAGS, "--backend-port", str(port)), {"TOOLGATE_BACKEND_KEY": KEY}
        with running("toolgate", model, flags=flags, env=env, label="growth"):
            url = f"http://127.0.0.1:{port}"
            asyncio.run(served(url, on_server, options.rounds))
    if SCHEMAS in parts:
        print(f"\n### {SCHEMAS}\n", flush=True)
        load = schemas.grow(str(model), options.schemas, options.every, with_calls=options.calls)
        asyncio.run(load)
    if DEFERRED in parts:
        with running("toolgate", model, label="deferred") as server:
            print(f"\n### {DEFERRED}\n\n{deferred.measured(server, options.requests)}", flush=True)
    if AGENTS in parts:
        print(f"\n### {AGENTS}\n\n{agents.measured(model)}", flush=True)
