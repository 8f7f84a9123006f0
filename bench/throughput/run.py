"""Tokens a second under enforcement: ours by each adapter, beside vLLM free and vLLM's own strict
tools; asked directly, behind LiteLLM's `hosted_vllm/`, and behind our gateway. With `--drafts` also
the servers that draft, vLLM's and ours.

    python -m bench.throughput.run MODEL_DIR [--rounds N] [--plots DIR] [--drafts] > table.md

All servers stand ready side by side, on the same model with the same flags, and are asked in turn:
a round asks each of them once for every cell, so that a ratio is of two measurements next to each
other. Batches of streams are begun together, each of up to `--tokens` tokens, with tools of BFCL
(`$TOOLGATE_SHARED/data`) in the prompt and grammars that are known. What runs free ignores the end
of turn; a random model's calls hardly ever end by themselves.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import httpx

from bench.support.contenders import MASTER_KEY, leave_on_sigterm, running
from bench.support.gateways import KEY, start, stock_config
from bench.support.tools import small_tools
from bench.throughput.clients import Lane, chat_lane, raw_lanes
from bench.throughput.report import ADAPTERS, DRAFTING, Cell, Found, Measured, report, write_plots
from toolgate_proxy.stack.processes import free_port

BATCHES, TOOLS = (1, 16, 64), (1, 8, 60)
BEHIND_TOOLS = 8
"""The number of tools with which the ways through gateways are measured."""
REQUESTS = {1: 8, 16: 2, 64: 1}
"""Of each of a batch's streams, one after another in a measurement."""
LENGTH = 8192
FLAGS: tuple[str, ...] = ("--max-num-seqs", "64", "--max-model-len", str(LENGTH))
DRAFTS = {
    "method": "ngram",
    "num_speculative_tokens": 8,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}
"""Tokens that stood in the prompt or the answer before, and, in ours, text that must come."""
BACKEND_KEY = "sk-bench-backend"


async def measure(lane: Lane, cell: Cell, tools: Sequence[dict[str, Any]]) -> Measured:
    """One batch of streams on one lane."""

    async def one() -> list[tuple[float, int]]:
        return [await lane.ask(tools) for _ in range(REQUESTS[cell.batch])]

    began = asyncio.get_running_loop().time()
    streams = await asyncio.gather(*(one() for _ in range(cell.batch)))
    took = asyncio.get_running_loop().time() - began
    answers = [answer for stream in streams for answer in stream]
    tokens = sum(count for _, count in answers)
    firsts = statistics.median(first for first, _ in answers)
    return Measured(tokens / took, 1e3 * firsts, tokens / len(answers))


async def lanes_of(
    held: AsyncExitStack, servers: dict[str, str], gateways: dict[str, str], model: str, tokens: int
) -> list[Lane]:
    """`servers` and `gateways`: their URLs by what they are."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=max(BATCHES))
    http = await held.enter_async_context(
        httpx.AsyncClient(timeout=300, limits=limits, trust_env=False)
    )
    lanes = [
        chat_lane("vllm, free", "direct", http, servers["vllm"], "x", model, tokens),
        chat_lane("vllm, strict", "direct", http, servers["vllm-strict"], "x", model, tokens),
        chat_lane("vllm, free", "hosted_vllm", http, gateways["stock"], KEY, "vllm", tokens),
        chat_lane(
            "vllm, strict", "hosted_vllm", http, gateways["stock"], KEY, "vllm-strict", tokens
        ),
    ]
    if "vllm-drafts" in servers:
        url = servers["vllm-drafts"]
        lanes.append(chat_lane("vllm, strict, drafts", "direct", http, url, "x", model, tokens))
    for engine in (each for each in (*ADAPTERS, DRAFTING) if each in servers):
        raw = await held.enter_async_context(
            httpx.AsyncClient(
                base_url=servers[engine],
                headers={
                    "authorization": f"Bearer {BACKEND_KEY}",
                    "content-type": "application/json",
                },
                timeout=300,
                limits=limits,
                trust_env=False,
            )
        )
        lanes += raw_lanes(engine, raw, tokens)
        if engine in ADAPTERS:
            url = gateways[engine]
            lanes.append(chat_lane(engine, "toolgate", http, url, MASTER_KEY, model, tokens))
    return lanes


async def run(lanes: Sequence[Lane], rounds: int) -> Found:
    tools = small_tools(max(TOOLS))
    cells = [Cell(batch, number) for number in TOOLS for batch in BATCHES]
    found: Found = {}
    for round_ in range(-1, rounds):  # the first one warms caches, and is not counted
        for cell in cells if round_ >= 0 else [*cells[::3], cells[-1]]:
            for lane in lanes:
                behind = lane.way in ("hosted_vllm", "toolgate")
                if behind and cell.tools != BEHIND_TOOLS:
                    continue
                measured = await measure(lane, cell, tools[: cell.tools])
                if round_ >= 0:
                    found.setdefault((lane.name, cell), []).append(measured)
        print(f"round {round_ + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64, help="of an answer, at most")
    parser.add_argument("--drafts", action="store_true", help="measure servers that draft, too")
    parser.add_argument("--plots", type=Path, help="directory for the SVG")
    options = parser.parse_args()
    leave_on_sigterm()
    model = options.model.resolve()
    with ExitStack() as stack:
        servers, gateways = dict[str, str](), dict[str, str]()
        drafts = (*FLAGS, "--speculative-config", json.dumps(DRAFTS))
        theirs = [("vllm", "vllm", FLAGS), ("vllm-strict", "vllm-strict", FLAGS)]
        if options.drafts:
            theirs.append(("vllm-drafts", "vllm-strict", drafts))
        for label, name, flags in theirs:
            server = stack.enter_context(running(name, model, LENGTH, label=label, flags=flags))
            servers[label] = server.url
        for engine in (*ADAPTERS, DRAFTING) if options.drafts else ADAPTERS:
            port = free_port()
            adapter = engine.partition(",")[0]
            env = {"TOOLGATE_ADAPTER": adapter, "TOOLGATE_BACKEND_KEY": BACKEND_KEY}
            flags = ("--backend-port", str(port), *(drafts if engine == DRAFTING else FLAGS))
            server = stack.enter_context(
                running("toolgate", model, label=engine.replace(", ", "-"), flags=flags, env=env)
            )
            servers[engine], gateways[engine] = f"http://127.0.0.1:{port}", server.url
        logs = Path(tempfile.mkdtemp(prefix="toolgate-throughput-"))
        free_and_strict = {name: servers[name] for name in ("vllm", "vllm-strict")}
        stock = start("stock", stock_config(free_and_strict, model.name), logs, stack, {})
        stock.wait()
        gateways["stock"] = stock.url
        async with AsyncExitStack() as held:
            lanes = await lanes_of(held, servers, gateways, model.name, options.tokens)
            found = await run(lanes, options.rounds)
    print(report(found))
    if options.plots is not None:
        write_plots(found, options.plots, model.name)


if __name__ == "__main__":
    asyncio.run(main())
