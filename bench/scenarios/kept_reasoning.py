"""Prefix cache hits of a tool loop whose client drops the reasoning, with and without keeping it.

    python -m bench kept-reasoning [--family NAME] [--turns N] [--loops N]

One stack with a small random model of a family whose chat template renders earlier reasoning, for
each value of TOOLGATE_KEEP_REASONING. A loop is a conversation in which each turn reasons and makes
one call; the client sends the call and a result back, without the reasoning. Prints Markdown: the
share of the prompt tokens that the backend's prefix cache had, by turn.
"""

import argparse
import random
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
from tests.models import tiny_family

from bench.support.contenders import Server, exit_on_sigterm, running
from toolgate_core.dialects.registry import DIALECTS
from toolgate_proxy.demo.model import closers

BLOCK = 32
"""Tokens per cache block. Only whole blocks are cached."""
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string", "maxLength": 20}},
            "required": ["at"],
        },
    },
}
WORDS = tuple("abcdefghijklmnopqrstuvwxyz")
Counts = dict[int, tuple[int, int]]
"""By turn: tokens of prompts, and those found in the cache."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", default="minimax_m2", choices=DIALECTS)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--loops", type=int, default=8)
    options = parser.parse_args()
    exit_on_sigterm()
    found = {
        kept: measured(options.family, options.turns, options.loops, kept) for kept in (False, True)
    }
    print(
        "| turn | tokens of the prompt | dropped: cached | kept: cached |\n"
        "| --- | --- | --- | --- |"
    )
    for turn in range(options.turns):
        dropped, kept = found[False][turn], found[True][turn]
        print(f"| {turn + 1} | {kept[0] // options.loops} | {share(dropped)} | {share(kept)} |")
    for name, counts in (("dropped", found[False]), ("kept", found[True])):
        total = tuple(map(sum, zip(*counts.values(), strict=True)))
        print(f"\nAll turns, {name}: {share((total[0], total[1]))} of the prompt tokens cached.")


def share(counts: tuple[int, int]) -> str:
    return f"{100 * counts[1] / counts[0]:.0f} %"


def measured(family: str, turns: int, loops: int, kept: bool) -> Counts:
    with tempfile.TemporaryDirectory(prefix="toolgate-") as folder:
        model = Path(folder) / f"tiny-{family}"
        tiny_family.build(model, DIALECTS[family])
        env = {"TOOLGATE_DIALECT": family, "TOOLGATE_KEEP_REASONING": "*" if kept else ""}
        flags = ("--enable-prefix-caching", "--block-size", str(BLOCK))
        with running("toolgate", model, flags=flags, env=env, label="kept-reasoning") as server:
            counts: Counts = defaultdict(lambda: (0, 0))
            for loop in range(loops):
                converse(server, closers(model), turns, loop, counts)
            return dict(counts)


def converse(server: Server, bias: dict[str, float], turns: int, seed: int, counts: Counts) -> None:
    rng = random.Random(seed)
    asked = f"{seed} {' '.join(rng.choices(WORDS, k=60))}"
    messages: list[dict[str, Any]] = [{"role": "user", "content": asked}]
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=120, trust_env=False) as http:
        for turn in range(turns):
            body = {
                "model": server.model_name(),
                "messages": messages,
                "tools": [TOOL],
                "tool_choice": "required",
                "parallel_tool_calls": False,
                "reasoning_budget": 60,
                "max_tokens": 400,
                "logit_bias": bias,
                "seed": seed * turns + turn,
            }
            answered = http.post("/v1/chat/completions", json=body)
            if answered.is_error:
                raise RuntimeError(answered.text)
            response = answered.json()
            usage = response["usage"]
            prompt, cached = counts[turn]
            details = usage["prompt_tokens_details"]
            counts[turn] = (
                prompt + usage["prompt_tokens"],
                cached + details["cached_tokens"],
            )
            message = response["choices"][0]["message"]
            if response["choices"][0]["finish_reason"] != "tool_calls":
                raise RuntimeError(f"no whole call: {message}")
            [call] = message["tool_calls"]
            result = " ".join(rng.choices(WORDS, k=20))
            messages += [
                {"role": "assistant", "content": message["content"], "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": result},
            ]
