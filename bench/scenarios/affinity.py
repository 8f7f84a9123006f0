"""Two backends, a gateway with prefix affinity and one without, the same conversations over each.

    python -m bench.scenarios.affinity MODEL_DIR [--cache TOKENS]

Many applications, each with tools and a system prompt of its own, and a few conversations of
several turns. Says what part of the prompts' tokens was in the backends' prefix caches, by turn.
`--cache`: tokens that each backend's cache holds; as many as vLLM takes memory for, when left out.
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

from bench.support.contenders import OUT, leave_on_sigterm
from toolgate_proxy.stack.processes import Child, free_port

APPLICATIONS, CONVERSATIONS, TURNS, CLIENTS = 16, 4, 5, 8
BLOCK = 32
"""Tokens to a block of the cache: what is cached of a prompt is whole blocks."""
WORDS = tuple("abcdefghijklmnopqrstuvwxyz")
MASTER_KEY, BACKEND_KEY = secrets.token_urlsafe(24), secrets.token_urlsafe(24)


@dataclass
class Counts:
    prompt: int = 0
    cached: int = 0
    seconds: list[float] = field(default_factory=list)


def said(number: int, chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=number))


def tool(chance: random.Random) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {word: {"type": "string"} for word in WORDS[:6]}}
    function = {"name": f"tool_{chance.randrange(10**6)}", "description": said(30, chance)}
    return {"type": "function", "function": function | {"parameters": parameters}}


async def converse(
    http: httpx.AsyncClient, head: dict[str, Any], seed: str, counts: dict[int, Counts]
) -> None:
    chance = random.Random(seed)
    messages = list(head["messages"])
    for turn in range(TURNS):
        messages.append({"role": "user", "content": said(80, chance)})
        body = head | {"messages": messages, "max_tokens": 24}
        began = time.monotonic()
        response = (await http.post("/v1/chat/completions", json=body)).raise_for_status()
        answer = response.json()
        counts[turn].seconds.append(time.monotonic() - began)
        counts[turn].prompt += answer["usage"]["prompt_tokens"]
        counts[turn].cached += answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        messages.append({"role": "assistant", "content": said(80, chance)})


async def measure(http: httpx.AsyncClient, salt: str) -> dict[int, Counts]:
    counts: dict[int, Counts] = defaultdict(Counts)
    heads = []
    for number in range(APPLICATIONS):
        chance = random.Random(f"{salt}{number}")
        system = {"role": "system", "content": f"{salt} {number} {said(400, chance)}"}
        tools = [tool(chance) for _ in range(2)]
        heads.append({"model": "tiny", "messages": [system], "tools": tools, "tool_choice": "none"})
    waiting = [
        (head, f"{number} {of}") for of in range(CONVERSATIONS) for number, head in enumerate(heads)
    ]
    waiting.reverse()

    async def client() -> None:
        while waiting:
            await converse(http, *waiting.pop(), counts)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return counts


async def compare(urls: dict[str, str]) -> None:
    print("| affinity | prompt tokens | cached | by turn | median s a request |")
    print("|---|---|---|---|---|")
    for name, url in urls.items():
        headers = {"authorization": f"Bearer {MASTER_KEY}"}
        async with httpx.AsyncClient(
            base_url=url, headers=headers, timeout=300, trust_env=False
        ) as http:
            counts = await measure(http, secrets.token_hex(4))
        prompt = sum(each.prompt for each in counts.values())
        cached = sum(each.cached for each in counts.values())
        by_turn = ", ".join(f"{each.cached / each.prompt:.0%}" for each in counts.values())
        seconds = median(second for each in counts.values() for second in each.seconds)
        print(f"| {name} | {prompt:,} | {cached / prompt:.1%} | {by_turn} | {seconds:.2f} |")


def wait(child: Child, url: str, key: str) -> None:
    while True:
        child.check()
        try:
            headers = {"authorization": f"Bearer {key}"}
            if httpx.get(url, headers=headers, timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass  # not listening yet
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--cache", type=int)
    options = parser.parse_args()
    leave_on_sigterm()
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
            wait(child, f"{url}/v1/toolgate/info", BACKEND_KEY)
        models = [part for _, url in backends for part in ("--model", f"tiny@{url}")]
        gateways = {
            name: start(
                f"gateway-{name}",
                "toolgate_proxy",
                *("proxy", *models),
                TOOLGATE_PREFIX_AFFINITY=str(name == "on"),
            )
            for name in ("off", "on")
        }
        for child, url in gateways.values():
            wait(child, f"{url}/v1/models", MASTER_KEY)
        asyncio.run(compare({name: url for name, (_, url) in gateways.items()}))


if __name__ == "__main__":
    main()
