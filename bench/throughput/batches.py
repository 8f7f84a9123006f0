"""Batches of streams that start together, at each engine, direct and through gateways.

Engines: Toolgate with each adapter, vLLM without enforcement, and vLLM with strict tools. Routes:
direct, through LiteLLM's `hosted_vllm/`, and through Toolgate's gateway. With `--drafts`: vLLM with
strict tools, the same with speculative decoding, and Toolgate with speculative decoding, direct.

Each round measures every client once for every cell, so a ratio compares two measurements of one
round. Each stream has at most `--tokens` tokens, BFCL tools (`$TOOLGATE_SHARED/data`) in the
prompt, a `logit_bias` against white space, and grammars that are already loaded. Without
enforcement, the end of turn is ignored. With random weights, a call rarely ends by itself.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.support.contenders import MASTER_KEY, running
from bench.support.gateways import KEY, litellm_config, start
from bench.support.tools import small_tools
from bench.throughput.batch_report import (
    ADAPTERS,
    DRAFTING,
    Cell,
    Found,
    Measured,
    drafts_report,
    report,
)
from bench.throughput.clients import (
    Bias,
    Client,
    Engine,
    backend_clients,
    chat_client,
    no_white_space,
)
from toolgate_proxy.ops.stack.processes import free_port

BATCHES, TOOLS = (1, 16, 64), (1, 8, 60)
"""Streams that start together, and tools of a request, unless options name others."""
GATEWAY_TOOLS = 8
"""Number of tools of the measurements through gateways."""
LENGTH = 8192
MAX_STREAMS = 64
FLAGS: tuple[str, ...] = ("--max-num-seqs", str(MAX_STREAMS), "--max-model-len", str(LENGTH))
DRAFTS = {
    "method": "ngram",
    "num_speculative_tokens": 8,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}
"""Drafts are repeated text; with Toolgate also text that the grammar forces."""
BACKEND_KEY = "sk-bench-backend"


@dataclass
class Servers:
    """URLs of the started servers, by engine."""

    vllm: dict[Engine, str] = field(default_factory=dict)
    backends: dict[Engine, str] = field(default_factory=dict)
    """Toolgate's own endpoint of each engine."""
    gateways: dict[Engine, str] = field(default_factory=dict)
    litellm: str = ""
    """A LiteLLM with a model for each server in `vllm`, named by its label."""


def start_all(stack: ExitStack, model: Path) -> Servers:
    servers = Servers()
    add_vllm(servers, stack, model, "vllm, free")
    add_vllm(servers, stack, model, "vllm, strict")
    for engine in ADAPTERS:
        add_toolgate(servers, stack, model, engine)
    logs = Path(tempfile.mkdtemp(prefix="toolgate-throughput-"))
    upstreams = {label(engine): url for engine, url in servers.vllm.items()}
    litellm = start("litellm", litellm_config(upstreams, model.name), logs, stack, {})
    litellm.wait()
    servers.litellm = litellm.url
    return servers


def start_drafting(stack: ExitStack, model: Path) -> Servers:
    """With drafts, an engine takes more memory: six of them would need more than 24 GB."""
    servers = Servers()
    add_vllm(servers, stack, model, "vllm, strict")
    add_vllm(servers, stack, model, "vllm, strict, drafts")
    add_toolgate(servers, stack, model, DRAFTING)
    return servers


def add_vllm(servers: Servers, stack: ExitStack, model: Path, engine: Engine) -> None:
    name = "vllm" if engine == "vllm, free" else "vllm-strict"
    server = stack.enter_context(
        running(name, model, LENGTH, label=label(engine), flags=flags(engine))
    )
    servers.vllm[engine] = server.url


def add_toolgate(servers: Servers, stack: ExitStack, model: Path, engine: Engine) -> None:
    port = free_port()
    env = {"TOOLGATE_ADAPTER": engine.partition(",")[0], "TOOLGATE_BACKEND_KEY": BACKEND_KEY}
    given = ("--backend-port", str(port), *flags(engine))
    server = stack.enter_context(
        running("toolgate", model, label=label(engine), flags=given, env=env)
    )
    servers.backends[engine], servers.gateways[engine] = f"http://127.0.0.1:{port}", server.url


def label(engine: Engine) -> str:
    return engine.replace(", ", "-")


def flags(engine: Engine) -> tuple[str, ...]:
    drafting = ("--speculative-config", json.dumps(DRAFTS)) if engine.endswith(", drafts") else ()
    return (*FLAGS, *drafting)


async def measure(client: Client, cell: Cell, tools: Sequence[dict[str, Any]]) -> Measured:
    """Measure one batch of streams of one client."""

    async def one() -> list[tuple[float, int]]:
        return [await client.send(tools) for _ in range(_requests(cell.batch))]

    began = asyncio.get_running_loop().time()
    streams = await asyncio.gather(*(one() for _ in range(cell.batch)))
    took = asyncio.get_running_loop().time() - began
    responses = [response for stream in streams for response in stream]
    tokens = sum(count for _, count in responses)
    first = statistics.median(first for first, _ in responses)
    return Measured(tokens / took, 1e3 * first, tokens / len(responses))


def _requests(batch: int) -> int:
    """Return the consecutive requests of each stream in one measurement."""
    return {1: 8, 16: 2}.get(batch, 1)


async def make_clients(
    stack: AsyncExitStack, servers: Servers, model: str, tokens: int, bias: Bias
) -> list[Client]:
    """A client for each engine and route."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=MAX_STREAMS)
    http = await stack.enter_async_context(
        httpx.AsyncClient(timeout=300, limits=limits, trust_env=False)
    )
    clients = [
        chat_client(engine, "direct", http, url, "x", model, tokens, bias)
        for engine, url in servers.vllm.items()
    ]
    clients += [
        chat_client(engine, "hosted_vllm", http, servers.litellm, KEY, label(engine), tokens, bias)
        for engine in (servers.vllm if servers.litellm else ())
    ]
    for engine, url in servers.backends.items():
        raw = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=url,
                headers={
                    "authorization": f"Bearer {BACKEND_KEY}",
                    "content-type": "application/json",
                },
                timeout=300,
                limits=limits,
                trust_env=False,
            )
        )
        clients += backend_clients(engine, raw, tokens, bias)
        if engine in ADAPTERS:
            url = servers.gateways[engine]
            clients.append(
                chat_client(engine, "toolgate", http, url, MASTER_KEY, model, tokens, bias)
            )
    return clients


async def measure_all(clients: Sequence[Client], rounds: int, cells: Sequence[Cell]) -> Found:
    tools = small_tools(max(cell.tools for cell in cells))
    found: Found = {}
    for round_ in range(-1, rounds):  # round -1 warms the caches and is not counted
        for cell in cells if round_ >= 0 else [*cells[::3], cells[-1]]:
            for client in clients:
                through_gateway = client.route in ("hosted_vllm", "toolgate")
                if through_gateway and cell.tools != GATEWAY_TOOLS:
                    continue
                measured = await measure(client, cell, tools[: cell.tools])
                if round_ >= 0:
                    found.setdefault((client.name, cell), []).append(measured)
        print(f"round {round_ + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


async def run(options: argparse.Namespace) -> None:
    model = options.model.resolve()
    with ExitStack() as stack:
        servers = (start_drafting if options.drafts else start_all)(stack, model)
        async with AsyncExitStack() as connections:
            bias = no_white_space(model)
            clients = await make_clients(connections, servers, model.name, options.tokens, bias)
            cells = [Cell(batch, tools) for tools in options.tools for batch in options.batches]
            found = await measure_all(clients, options.rounds, cells)
    print(drafts_report(found) if options.drafts else report(found))
