"""Whole engines under constant load: tokens per second, steps, and the time between tokens.

    python -m bench gpu-throughput MODEL_DIR [--streams 16 64 256] [--seconds 6] [--rounds 3]
        [vLLM options, such as --load-format dummy --gpu-memory-utilization 0.25]

Servers: vLLM, and Toolgate's backend with each adapter. All run at the same time on one GPU, with
the same model and options, and are measured in turn. vLLM streams from `/v1/chat/completions`, free
and with strict tools, and Toolgate from its backend's endpoint, free and with enforcement. The
prompt has 8 BFCL tools with two or more required strings. Tokens that end strings and objects have
a bias, because with random weights calls would not end. Each stream sends its next request as soon
as a response is complete. A free response has `--free-tokens` tokens, about as many as a call.

Measured is a window of `--seconds` in which all streams run. Tokens and the time between them are
those that the clients receive, which are `--clients` processes. The number of engine steps is that
of the server's metrics. Complete calls are validated with jsonschema. Prints Markdown. The exit
status is 1 if a call of Toolgate's is invalid. It also runs with vLLM's CPU build.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from tokenizers import Tokenizer

from bench.support import contenders
from bench.support.backend_client import GENERATE_PATH, BackendClient, lines
from bench.support.data import ROOT
from bench.support.ratios import ratio
from bench.support.tools import small_tools
from bench.support.validation import schema_violation
from toolgate_core import wire
from toolgate_proxy.stack.processes import free_port

ADAPTERS = ("structured_output", "logits_processor")
LENGTH = 4096
TOOLS = 8
MAX_TOKENS = 512
"""Of a call."""
CLOSERS, CLOSER_BIAS = ('"', "}", '"}', "]", '"]', '"}}', '"}}\n'), 7.0
WARM_UP_SECONDS = 1.5
"""The streams start one after the other in the first half."""
READY_SECONDS = 300.0
NUMBER, IDENTIFIER = "<<number>>", "<<identifier>>"
"""Replaced in each body, so that no two requests are equal."""
CALL_START = "<tool_call>"


@dataclass(frozen=True)
class Target:
    """What one measurement sends its requests to."""

    server: str
    enforced: bool
    url: str
    path: str
    body: str
    token_mark: bytes
    """Is in each line of a stream that has tokens."""
    schemas: Mapping[str, dict[str, Any]]
    """Those of the tools' arguments, by name."""

    @property
    def name(self) -> str:
        return f"{self.server}, {'enforced' if self.enforced else 'free'}"


@dataclass
class Seen:
    """What clients have seen of a target."""

    gaps: list[float] = field(default_factory=list)
    """Seconds between consecutive events with tokens, of all streams."""
    received: int = 0
    """Tokens in the window."""
    responses: int = 0
    """Complete ones, also before the window. The following counts are theirs."""
    tokens: int = 0
    calls: int = 0
    truncated: int = 0
    """Responses that ended at the maximum number of tokens, within a call or before it."""
    invalid: list[str] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        self.gaps += other.gaps
        self.received += other.received
        self.responses += other.responses
        self.tokens += other.tokens
        self.calls += other.calls
        self.truncated += other.truncated
        self.invalid += other.invalid


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


Events = list[tuple[float, bytes]]
"""Times and JSON of the events of a response."""

Calls = list[tuple[str, str]]
"""Names and arguments."""

Found = dict[tuple[int, str], list[Measured]]
"""A measurement of each round, by the number of streams and the name of the target."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--streams", type=int, nargs="+", default=(16, 64, 256))
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--free-tokens", type=int, default=144, help="tokens of a free response")
    parser.add_argument("--clients", type=int, default=8, help="number of client processes")
    parser.add_argument("--until", type=float, help="seconds after which no round starts")
    parser.add_argument("--out", type=Path, help="file for a JSON line of each measurement")
    options, flags = parser.parse_known_args()
    contenders.exit_on_sigterm()
    began = time.monotonic()
    with ExitStack() as stack:
        model = options.model.resolve()
        urls = start_all(stack, model, max(options.streams), flags)
        targets = asyncio.run(make_targets(urls, model, options.free_tokens))
        spawn = multiprocessing.get_context("spawn")
        pool = stack.enter_context(ProcessPoolExecutor(options.clients, mp_context=spawn))
        found: Found = {}
        measure(pool, options.clients, targets[0], 4, 1.0)  # starts the clients
        for number in range(options.rounds):
            if number and time.monotonic() - began > (options.until or float("inf")):
                break
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


@contextmanager
def starting(
    name: str, model: Path, flags: Sequence[str]
) -> Iterator[tuple[contenders.Server, Path]]:
    """A server and its log. `name` is `vllm` or an adapter."""
    port = free_port()
    contenders.OUT.mkdir(parents=True, exist_ok=True)
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
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env | {"VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "INFO")},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield contenders.Server(process, f"http://127.0.0.1:{port}", "x"), log
    finally:
        contenders.stop(process, contenders.process_tree(process))


async def make_targets(urls: Mapping[str, str], model: Path, free_tokens: int) -> list[Target]:
    tools = small_tools(TOOLS)
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    bias = closer_bias(model)
    targets = []
    for server, url in urls.items():
        async with httpx.AsyncClient(base_url=url, timeout=300, trust_env=False) as http:
            for enforced in (False, True):
                tokens = MAX_TOKENS if enforced else free_tokens
                if server == "vllm":
                    path, mark = "/v1/chat/completions", b'"token_ids":['
                    body = chat_body(model.name, tools, tokens, bias, enforced)
                else:
                    path, mark = GENERATE_PATH, b'"event":"tokens"'
                    body = await backend_body(BackendClient(http), tools, tokens, bias, enforced)
                targets.append(Target(server, enforced, url, path, body, mark, schemas))
    return targets


def closer_bias(model: Path) -> dict[int, float]:
    """A bias of the tokens that end strings and objects."""
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    encoded = [tokenizer.encode(text, add_special_tokens=False).ids for text in CLOSERS]
    return {ids[0]: CLOSER_BIAS for ids in encoded if len(ids) == 1}


def chat_body(
    model: str,
    tools: Sequence[dict[str, Any]],
    tokens: int,
    bias: Mapping[int, float],
    enforced: bool,
) -> str:
    """A request of `/v1/chat/completions`, whose chunks have the ids of their tokens."""
    return json.dumps(
        {
            "model": model,
            "messages": [{"role": "user", "content": f"{NUMBER} Go on."}],
            "tools": [
                tool | {"function": tool["function"] | {"strict": enforced}} for tool in tools
            ],
            "tool_choice": "required" if enforced else "auto",
            "stream": True,
            "return_token_ids": True,
            "temperature": 1.0,
            "max_tokens": tokens,
            "ignore_eos": not enforced,
            "logit_bias": {str(token): value for token, value in bias.items()},
            "chat_template_kwargs": {"enable_thinking": False},
        }
    )


async def backend_body(
    backend: BackendClient,
    tools: Sequence[dict[str, Any]],
    tokens: int,
    bias: Mapping[int, float],
    enforced: bool,
) -> str:
    candidates = tuple(await backend.load(tools))
    if len(candidates) < len(tools):
        raise RuntimeError("The backend refuses some of the tools.")
    request = wire.GenerateRequest(
        request_id=IDENTIFIER,
        model=(await backend.info()).model,
        prompt=wire.ChatPrompt(
            messages=({"role": "user", "content": f"{NUMBER} Go on."},),
            tools=tuple(tools),
            template_kwargs={"enable_thinking": False},
        ),
        sampling=wire.Sampling(
            max_tokens=tokens, temperature=1.0, ignore_eos=not enforced, logit_bias=dict(bias)
        ),
        enforcement=wire.Enforcement(choice="required", candidates=candidates, reasoning="off")
        if enforced
        else None,
    )
    return request.model_dump_json()


def measure(pool: Executor, clients: int, target: Target, streams: int, seconds: float) -> Measured:
    """Start the streams, and measure after they have warmed up."""
    shares = [len(range(number, streams, clients)) for number in range(min(clients, streams))]
    start = time.monotonic() + 0.2 + WARM_UP_SECONDS
    end = start + seconds
    tasks = [pool.submit(drive, target, share, start, end) for share in shares]
    with httpx.Client(base_url=target.url, timeout=60, trust_env=False) as http:
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


def drive(target: Target, streams: int, start: float, end: float) -> Seen:
    """Runs in a client's process. `start` and `end` of the window are times of `monotonic`."""
    return asyncio.run(_drive(target, streams, start, end))


async def _drive(target: Target, streams: int, start: float, end: float) -> Seen:
    begun: list[Events] = []
    complete: list[Events] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=streams)

    async def one(http: httpx.AsyncClient, delay: float) -> None:
        await asyncio.sleep(delay)
        while True:
            events: Events = []
            begun.append(events)
            await send(http, target, events)
            complete.append(events)

    async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as http:
        step = max(0.0, start - WARM_UP_SECONDS / 2 - time.monotonic()) / streams
        running = asyncio.gather(*(one(http, step * number) for number in range(streams)))
        with suppress(TimeoutError):
            await asyncio.wait_for(running, max(0.0, end - time.monotonic()))
    seen = Seen()
    for events in begun:
        inside = [
            (at, line) for at, line in events if start <= at <= end and target.token_mark in line
        ]
        seen.gaps += [later - earlier for (earlier, _), (later, _) in pairwise(inside)]
        seen.received += sum(token_count(json.loads(line)) for _, line in inside)
    for events in complete:
        judge(target, [json.loads(line) for _, line in events], seen)
    return seen


async def send(http: httpx.AsyncClient, target: Target, events: Events) -> None:
    """Add the events of one response to `events`.

    Raises RuntimeError with the response if it is an error.
    """
    identifier = uuid.uuid4().hex
    body = target.body.replace(NUMBER, identifier[:8]).replace(IDENTIFIER, identifier)
    headers = {"authorization": "Bearer x", "content-type": "application/json"}
    async with http.stream(
        "POST", target.url + target.path, content=body.encode(), headers=headers
    ) as response:
        if response.status_code != 200:
            raise RuntimeError((await response.aread()).decode(errors="replace")[:300])
        async for line in lines(response):
            if line.startswith(b"data: {"):
                events.append((time.monotonic(), line.removeprefix(b"data: ")))


def token_count(event: Any) -> int:
    """Number of tokens of an event of either API."""
    if "choices" in event:
        return sum(len(choice.get("token_ids") or ()) for choice in event["choices"])
    return len(event.get("ids", ()))


def judge(target: Target, events: Sequence[Any], seen: Seen) -> None:
    """Count a complete response, and validate its calls."""
    error = next((event for event in events if "error" in event), None)
    if error is not None:
        raise RuntimeError(str(error)[:300])
    seen.responses += 1
    seen.tokens += sum(map(token_count, events))
    if not target.enforced:
        return
    calls, reason = (chat_calls if target.server == "vllm" else backend_calls)(events)
    if reason == "length":
        seen.truncated += 1
        calls = calls[:-1]
    elif not calls:
        seen.invalid.append(f"no call, finish reason {reason}")
    for name, arguments in calls:
        seen.calls += 1
        if (what := violation(target, name, arguments)) is not None:
            seen.invalid.append(f"{name}: {what}")


def violation(target: Target, name: str, arguments: str) -> str | None:
    if name not in target.schemas:
        return "no such tool"
    try:
        return schema_violation(target.schemas[name], json.loads(arguments))
    except ValueError as error:
        return f"{error}: {arguments[:200]}"


def chat_calls(events: Sequence[Any]) -> tuple[Calls, str]:
    """The calls and the finish reason."""
    calls: dict[int, list[str]] = {}
    reason = ""
    for choice in (choice for event in events for choice in event["choices"]):
        reason = choice["finish_reason"] or reason
        for call in choice["delta"].get("tool_calls") or ():
            texts = calls.setdefault(call["index"], ["", ""])
            texts[0] += call["function"].get("name") or ""
            texts[1] += call["function"].get("arguments") or ""
    return [(name, arguments) for name, arguments in calls.values()], reason


def backend_calls(events: Sequence[Any]) -> tuple[Calls, str]:
    """The calls, which have Qwen3's form, and the finish reason."""
    text, reason = "", ""
    for event in events:
        if event["event"] == "tokens":
            text += "".join(event["texts"])
        if event["event"] == "end":
            text, reason = text + event["text"], event["finish_reason"]
    calls = []
    for part in text.split(CALL_START)[1:]:
        try:
            call, _ = json.JSONDecoder().raw_decode(part.strip())
            calls.append((str(call["name"]), json.dumps(call["arguments"])))
        except (ValueError, KeyError) as error:
            calls.append(("?", f"{error}: {part}"))
    return calls, reason


def keep(out: Path | None, number: int, streams: int, target: Target, each: Measured) -> None:
    if out is not None:
        labels = {"round": number, "streams": streams, "target": target.name}
        with out.open("a") as file:
            file.write(json.dumps(labels | asdict(each)) + "\n")


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
    rows = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for (streams, name), some in found.items():
        rows.append(f"| {streams} | {' | '.join(cells(found, streams, name, some))} |")
    return "\n".join(rows)


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


if __name__ == "__main__":
    sys.exit(main())
