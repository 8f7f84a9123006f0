"""Prefix cache hits of two backends, with and without prefix affinity.

    python -m bench affinity MODEL_DIR [--cache TOKENS]

A gateway with two backends runs the same conversations twice. The first time each request has its
own `prompt_cache_key`, so that it goes to either backend. There are several
applications, each with its own tools and system prompt, and several conversations of some turns.
Prints Markdown: the share of prompt tokens found in the backends' prefix caches, in all and by
turn. `--cache` is the number of tokens that each backend's cache can contain; by default vLLM uses
the free memory.
"""

import argparse
import asyncio
import os
import random
import secrets
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from bench.support.contenders import OUT, exit_on_sigterm
from bench.support.gateways import wait_until_ready
from tests.support import markdown
from toolgate_proxy.ops.stack.processes import Child, free_port

APPLICATIONS, CONVERSATIONS, TURNS, CLIENTS = 16, 4, 5, 8
BLOCK = 32
"""Tokens per cache block. Only whole blocks are cached."""
READY_SECONDS = 300.0
WORDS = tuple("abcdefghijklmnopqrstuvwxyz")
HEAD = ("affinity", "prompt tokens", "cached", "cached by turn", "median s per request")
MASTER_KEY, BACKEND_KEY = secrets.token_urlsafe(24), secrets.token_urlsafe(24)


@dataclass
class Counts:
    prompt: int = 0
    cached: int = 0
    seconds: list[float] = field(default_factory=list)


def random_text(words: int, rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def tool(rng: random.Random) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {word: {"type": "string"} for word in WORDS[:6]}}
    function = {"name": f"tool_{rng.randrange(10**6)}", "description": random_text(30, rng)}
    return {"type": "function", "function": function | {"parameters": parameters}}


async def converse(
    http: httpx.AsyncClient,
    head: dict[str, Any],
    seed: str,
    counts: dict[int, Counts],
    *,
    affinity: bool,
) -> None:
    rng = random.Random(seed)
    messages = list(head["messages"])
    for turn in range(TURNS):
        messages.append({"role": "user", "content": random_text(80, rng)})
        body = head | {"messages": messages, "max_tokens": 24}
        if not affinity:
            body["prompt_cache_key"] = secrets.token_hex(8)
        began = time.monotonic()
        response = (await http.post("/v1/chat/completions", json=body)).raise_for_status()
        usage = response.json()["usage"]
        counts[turn].seconds.append(time.monotonic() - began)
        counts[turn].prompt += usage["prompt_tokens"]
        counts[turn].cached += usage["prompt_tokens_details"]["cached_tokens"]
        messages.append({"role": "assistant", "content": random_text(80, rng)})


async def measure(http: httpx.AsyncClient, salt: str, *, affinity: bool) -> dict[int, Counts]:
    counts: dict[int, Counts] = defaultdict(Counts)
    heads = []
    for number in range(APPLICATIONS):
        rng = random.Random(f"{salt}{number}")
        system = {"role": "system", "content": f"{salt} {number} {random_text(400, rng)}"}
        tools = [tool(rng) for _ in range(2)]
        heads.append({"model": "tiny", "messages": [system], "tools": tools, "tool_choice": "none"})
    waiting = [
        (head, f"{application} {number}")
        for number in range(CONVERSATIONS)
        for application, head in enumerate(heads)
    ]
    waiting.reverse()

    async def client() -> None:
        while waiting:
            await converse(http, *waiting.pop(), counts, affinity=affinity)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return counts


async def compare(url: str) -> None:
    print(markdown.head(HEAD))
    for name in ("off", "on"):
        headers = {"authorization": f"Bearer {MASTER_KEY}"}
        async with httpx.AsyncClient(
            base_url=url, headers=headers, timeout=300, trust_env=False
        ) as http:
            counts = await measure(http, secrets.token_hex(4), affinity=name == "on")
        prompt = sum(each.prompt for each in counts.values())
        cached = sum(each.cached for each in counts.values())
        by_turn = ", ".join(f"{each.cached / each.prompt:.0%}" for each in counts.values())
        seconds = median(second for each in counts.values() for second in each.seconds)
        share = f"{cached / prompt:.1%}"
        print(markdown.row([name, f"{prompt:,}", share, by_turn, f"{seconds:.2f}"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--cache", type=int, help="cache size of a backend, in tokens")
    options = parser.parse_args()
    exit_on_sigterm()
    model = options.model.resolve()
    flags = ["--max-model-len", "4096", "--max-num-seqs", "8", "--block-size", str(BLOCK)]
    if options.cache:
        flags += ["--num-gpu-blocks-override", str(options.cache // BLOCK)]
    OUT.mkdir(parents=True, exist_ok=True)
    os.environ["TOOLGATE_MASTER_KEY"] = MASTER_KEY
    os.environ["TOOLGATE_BACKEND_KEY"] = BACKEND_KEY
    with ExitStack() as stack:

        def start(name: str, module: str, *command: str, **environment: str) -> tuple[Child, str]:
            port = free_port()
            line = [sys.executable, "-m", module, *command, "--port", str(port)]
            child = Child(name, line, environment, OUT / f"affinity-{name}.log")
            stack.callback(child.stop)
            return child, f"http://127.0.0.1:{port}"

        backends = [
            start(
                f"backend-{at}",
                "toolgate_backend.launch",
                *(str(model), "--host", "127.0.0.1", "--served-model-name", "tiny", *flags),
                VLLM_API_KEY=BACKEND_KEY,
            )
            for at in range(2)
        ]
        for child, url in backends:
            wait_until_ready(child, f"{url}/v1/toolgate/info", BACKEND_KEY, READY_SECONDS)
        models = [part for _, url in backends for part in ("--model", f"tiny@{url}")]
        gateway, url = start("gateway", "toolgate_proxy", "proxy", *models)
        wait_until_ready(gateway, f"{url}/v1/models", MASTER_KEY, READY_SECONDS)
        asyncio.run(compare(url))
