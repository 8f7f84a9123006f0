"""Whole engines under constant load: tokens per second, steps, and the time between tokens.

Servers: vLLM, and Toolgate's backend with each adapter. vLLM streams from `/v1/chat/completions`,
free and with strict tools, and Toolgate from its backend's endpoint, free and with enforcement.
With `--gateway`, it also streams from the chat completions of a gateway before the first adapter.
The prompt has 8 BFCL tools with two or more required strings. Tokens that end strings and objects
have a bias, because with random weights calls would not end. Each stream sends its next request as
soon as a response is complete. A free response has `--free-tokens` tokens, about as many as a call.

Measured is a window of `--seconds` in which all streams run. Tokens and the time between them are
those that the clients receive, which are `--clients` processes. The number of engine steps is that
of the server's metrics. Complete calls are validated with jsonschema. The exit status is 1 if a
call of Toolgate's is invalid.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from bench.support import contenders, gateways
from bench.support.ratios import ratio
from bench.throughput.streams import WARM_UP_SECONDS, Seen, drive
from bench.throughput.targets import Target, make_targets
from tests.support.markdown import table
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.server.launcher import Route as Model
from toolgate_proxy.server.launcher import make_config

ADAPTERS = ("structured_output", "logits_processor")
LENGTH = 4096
READY_SECONDS = 300.0


def run(options: argparse.Namespace, flags: Sequence[str]) -> int:
    """`flags`: options of vLLM for all servers."""
    with ExitStack() as stack:
        model = options.model.resolve()
        urls = start_all(stack, model, max(options.streams), flags)
        engines = dict(urls)
        if options.gateway:
            engines["gateway"] = urls[ADAPTERS[0]]
            urls["gateway"] = start_gateway(stack, model.name, engines["gateway"])
        targets = asyncio.run(make_targets(urls, engines, model, options.free_tokens))
        spawn = multiprocessing.get_context("spawn")
        pool = stack.enter_context(ProcessPoolExecutor(options.clients, mp_context=spawn))
        found: Found = {}
        measure(pool, options.clients, targets[0], 4, 1.0)  # starts the clients
        for number in range(options.rounds):
            for streams in options.streams:
                for target in targets:
                    each = measure(pool, options.clients, target, streams, options.seconds)
                    found.setdefault((streams, target.name), []).append(each)
                    keep(options.out, number, streams, target, each)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            print(report(found), file=sys.stderr, flush=True)
    print(report(found))
    ours = [
        each for (_, name), some in found.items() if not name.startswith("vllm") for each in some
    ]
    return int(any(each.invalid for each in ours))


def start_all(stack: ExitStack, model: Path, streams: int, flags: Sequence[str]) -> dict[str, str]:
    """The URL of each server. They start at the same time."""
    flags = (*flags, "--max-num-seqs", str(streams))
    started = {}
    for name in ("vllm", *ADAPTERS):
        started[name] = stack.enter_context(starting(name, model, flags))
    for name, (server, log) in started.items():
        contenders.wait_ready(server, "vllm", log, READY_SECONDS)
        print(f"{name}: ready", file=sys.stderr, flush=True)
    return {name: server.url for name, (server, _) in started.items()}


def start_gateway(stack: ExitStack, model: str, backend: str) -> str:
    """The URL of a gateway before a backend, when it is ready."""
    environment = {"TOOLGATE_BACKEND_URL": backend, "TOOLGATE_BACKEND_KEY": gateways.KEY}
    contenders.OUT.mkdir(parents=True, exist_ok=True)
    config = make_config([Model(model, model)])
    gateway = gateways.start("toolgate", config, contenders.OUT, stack, environment)
    gateway.wait(READY_SECONDS)
    return gateway.url


@contextmanager
def starting(
    name: str, model: Path, flags: Sequence[str]
) -> Iterator[tuple[contenders.Server, Path]]:
    """A server and its log. `name` is `vllm` or an adapter."""
    port = free_port()
    log = contenders.OUT / f"gpu-{name}.log"
    if name == "vllm":
        env = contenders.environment("vllm-strict")
        flags = ("--max-model-len", str(LENGTH), *flags)
        command = contenders.command("vllm-strict", model, port, LENGTH, flags)
    else:
        env = contenders.environment("toolgate", {"TOOLGATE_ADAPTER": name})
        command = [sys.executable, "-m", "toolgate_backend.launch", str(model)]
        command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", str(LENGTH)]
        command += ["--served-model-name", model.name, *flags]
    env |= {"VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "INFO")}
    process = contenders.spawn(command, env, log)
    try:
        yield contenders.Server(process, f"http://127.0.0.1:{port}", "x"), log
    finally:
        contenders.stop(process, contenders.process_tree(process))


def measure(pool: Executor, clients: int, target: Target, streams: int, seconds: float) -> Measured:
    """Start the streams, and measure after they have warmed up."""
    shares = [len(range(number, streams, clients)) for number in range(min(clients, streams))]
    start = time.monotonic() + 0.2 + WARM_UP_SECONDS
    end = start + seconds
    tasks = [pool.submit(drive, target, share, start, end) for share in shares]
    with httpx.Client(base_url=target.engine, timeout=60, trust_env=False) as http:
        time.sleep(max(0.0, start - time.monotonic()))
        before = counters(http)
        time.sleep(max(0.0, end - 0.05 - time.monotonic()))
        after = counters(http)
        seen = Seen()
        for task in tasks:
            seen.add(task.result())
        wait_idle(http)
    took = after["time"] - before["time"]
    steps = after["steps"] - before["steps"]
    gaps = sorted(seen.gaps) or [0.0]
    for what in seen.invalid[:3]:
        print(f"{target.name}: {what}", file=sys.stderr, flush=True)
    return Measured(
        tokens_per_second=seen.received / seconds,
        step_ms=1e3 * took / max(steps, 1),
        gap_ms=1e3 * statistics.median(gaps),
        gap_p99_ms=1e3 * gaps[int(0.99 * (len(gaps) - 1))],
        tokens=seen.tokens / max(seen.responses, 1),
        responses=seen.responses,
        calls=seen.calls,
        truncated=seen.truncated,
        invalid=len(seen.invalid),
    )


def counters(http: httpx.Client) -> dict[str, float]:
    """The engine's steps since its start, the requests that run, and the time."""
    names = {
        "vllm:iteration_tokens_total_count": "steps",
        "vllm:num_requests_running": "running",
    }
    text = http.get("/metrics").text
    found = {"time": time.monotonic()}  # a busy server answers late, with the latest numbers
    for line in text.splitlines():
        name, _, value = line.partition("{")
        if name in names:
            found[names[name]] = float(value.rpartition(" ")[2])
    return found


def wait_idle(http: httpx.Client) -> None:
    """Until the server has aborted the requests that the clients left."""
    for _ in range(100):
        if not counters(http)["running"]:
            return
        time.sleep(0.05)


def keep(out: Path | None, number: int, streams: int, target: Target, each: Measured) -> None:
    if out is not None:
        labels = {"round": number, "streams": streams, "target": target.name}
        with out.open("a") as file:
            file.write(json.dumps(labels | asdict(each)) + "\n")


@dataclass(frozen=True)
class Measured:
    tokens_per_second: float
    step_ms: float
    gap_ms: float
    gap_p99_ms: float
    tokens: float
    """Of a response, on average."""
    responses: int
    calls: int
    truncated: int
    invalid: int


Found = dict[tuple[int, str], list[Measured]]
"""A measurement of each round, by the number of streams and the name of the target."""


def report(found: Found) -> str:
    head = ["streams", "server", "tokens/s", "÷ free", "÷ vLLM free", "step, ms"]
    head += [
        "between tokens, ms p50 / p99",
        "tokens per response",
        "responses",
        "calls",
        "truncated",
        "invalid",
    ]
    return table(
        head,
        ([each[0], *cells(found, *each, some)] for each, some in found.items()),
    )


def cells(found: Found, streams: int, name: str, some: Sequence[Measured]) -> list[str]:
    def median(attribute: str) -> float:
        return statistics.median(float(getattr(each, attribute)) for each in some)

    def compared(base: str) -> str:
        bases = found.get((streams, base), [])
        rates = [[each.tokens_per_second for each in side] for side in (some, bases)]
        if base == name or len(bases) != len(some) or not all(rates[1]):
            return ""
        return ratio(*rates)

    free = name.replace("enforced", "free")
    return [
        name,
        f"{median('tokens_per_second'):,.0f}",
        compared(free),
        compared("vllm, free"),
        f"{median('step_ms'):.2f}",
        f"{median('gap_ms'):.1f} / {median('gap_p99_ms'):.1f}",
        f"{median('tokens'):.0f}",
        *(
            f"{sum(getattr(each, count) for each in some):,}"
            for count in ("responses", "calls", "truncated", "invalid")
        ),
    ]
