"""Black-box evaluation of the Responses API, alone and against chat completions.

    python -m bench responses-conformance --model MODEL_DIR --bias closers --bias hostile
    python -m bench responses-conformance --model MODEL_DIR --url http://127.0.0.1:4000 --key sk-…

Each case is a set of BFCL tools with a `tool_choice`, `parallel_tool_calls` and reasoning on, off
or by default. It is sent three times with the same seed: to the Responses API whole and streamed,
and to chat completions. Every answer is checked, events and response objects by OpenAI's own
models, and the three must be equal. What else is in the engine's batch can change a sampled token,
so a case whose answers differ is repeated alone before it counts.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.support.responses_api import accumulated, check_response, read_events

from bench.api_conformance.checks import Answer, of_chat, of_response, violations
from bench.support.contenders import exit_on_sigterm, running
from bench.support.data import BFCL, records

BIASES = ("none", "closers", "hostile")
CLOSERS = {'"': 9.0, "}": 7.5, '"}': 8.0, '",': 8.0, "]": 7.5, '"]': 7.5}
CLOSERS |= {"</think>": 8.5, "<|im_end|>": 7.5}
HOSTILE = {"<tool_call>": 8.5, "</tool_call>": 8.0}
MAX_CHARACTERS = 9000
"""Length of the JSON of a case's tools and messages; longer ones do not fit the context."""


@dataclass
class Result:
    """Counts of one bias."""

    cases: int = 0
    cut: int = 0
    calls: int = 0
    repeated: int = 0
    """Cases whose answers differed in a batch and were repeated alone."""
    seconds: float = 0.0
    violations: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, case: int, detail: object) -> None:
        self.violations[kind] += 1
        self.examples.setdefault(kind, f"case {case}: {str(detail)[:600]}")


def bias_of(name: str, model: Path) -> dict[str, float]:
    if name == "none":
        return {}
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = dict(tokenizer["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    wanted = CLOSERS | (HOSTILE if name == "hostile" else {})
    return {str(ids[text]): bias for text, bias in wanted.items() if text in ids}


def requests(options: argparse.Namespace, bias: dict[str, float]) -> list[dict[str, Any]]:
    """The bodies of the Responses requests; `messages` are `input`."""
    rng = random.Random(options.seed)
    cases = [
        case
        for case in records(BFCL)
        if len(json.dumps([case["tools"], case["messages"]])) <= MAX_CHARACTERS
    ]
    rng.shuffle(cases)
    thinking: list[bool | None] = [None, True, False]
    grid = [
        *itertools.product(("none", "auto", "required", "named"), (True, False), thinking),
    ]
    rng.shuffle(grid)
    made = []
    for at in range(options.cases):
        choice, parallel, think = grid[at % len(grid)]
        case = cases[at % len(cases)]
        tools = [{"type": "function", **tool["function"]} for tool in case["tools"]]
        named = {"type": "function", "name": rng.choice(tools)["name"]}
        body = {
            "model": options.name,
            "input": case["messages"],
            "tools": tools,
            "tool_choice": named if choice == "named" else choice,
            "parallel_tool_calls": parallel,
            "max_output_tokens": options.max_tokens,
            "temperature": 1.0,
            "seed": options.seed * 100_003 + at,
            "store": False,
        }
        if bias:
            body["logit_bias"] = bias
        if think is not None:
            body["chat_template_kwargs"] = {"enable_thinking": think}
        made.append(body)
    return made


def as_chat(body: dict[str, Any]) -> dict[str, Any]:
    """The same request to chat completions."""
    chat = {name: value for name, value in body.items() if name not in ("input", "store")}
    chat["messages"] = body["input"]
    chat["max_tokens"] = chat.pop("max_output_tokens")
    chat["tools"] = [
        {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}
        for tool in body["tools"]
    ]
    if isinstance(body["tool_choice"], dict):
        name = body["tool_choice"]["name"]
        chat["tool_choice"] = {"type": "function", "function": {"name": name}}
    return chat


class Evaluation:
    def __init__(self, http: httpx.AsyncClient, concurrency: int) -> None:
        self._http = http
        self._slots = asyncio.Semaphore(concurrency)
        self.result = Result()

    async def run(self, bodies: list[dict[str, Any]]) -> Result:
        started = time.monotonic()
        differing = await asyncio.gather(*map(self._in_batch, itertools.count(), bodies))
        for at, body in enumerate(bodies):
            if differing[at]:
                self.result.repeated += 1
                await self._check_equal(at, body)
        self.result.seconds = time.monotonic() - started
        return self.result

    async def _in_batch(self, at: int, body: dict[str, Any]) -> bool:
        """Checks the answers of a case. Returns whether they differ."""
        async with self._slots:
            answers = await self._answers(at, body)
        self.result.cases += 1
        for answer in answers[:2]:
            self.result.calls += len(answer.calls)
            self.result.cut += answer.cut
            for kind, detail in violations(body, answer):
                self.result.add(kind, at, detail)
        return len({answer.compared() for answer in answers}) > 1

    async def _check_equal(self, at: int, body: dict[str, Any]) -> None:
        whole, streamed, chat, again = [
            *await self._answers(at, body),
            *(await self._answers(at, body))[:1],
        ]
        if whole.compared() != again.compared():
            self.result.add("not deterministic alone", at, (whole, again))
        elif whole.compared() != streamed.compared():
            self.result.add("streamed differs from whole", at, (whole, streamed))
        elif whole.compared() != chat.compared():
            self.result.add("chat differs from Responses", at, (whole, chat))

    async def _answers(self, at: int, body: dict[str, Any]) -> list[Answer]:
        """Whole, streamed and by chat completions; fewer, if one failed."""
        answers = []
        for ask in (self._whole, self._streamed, self._chat):
            try:
                answers.append(await ask(body))
            except (AssertionError, ValueError, KeyError, httpx.HTTPError) as error:
                self.result.add(f"{ask.__name__.strip('_')}: {type(error).__name__}", at, error)
                answers.append(Answer("", "", (), (), True, (0, 0)))
        return answers

    async def _post(self, path: str, body: dict[str, Any]) -> bytes:
        response = await self._http.post(path, json=body)
        assert response.status_code == 200, response.text
        return response.content

    async def _whole(self, body: dict[str, Any]) -> Answer:
        made = json.loads(await self._post("/v1/responses", body))
        check_response(made)
        return of_response(made)

    async def _streamed(self, body: dict[str, Any]) -> Answer:
        events = read_events(await self._post("/v1/responses", {**body, "stream": True}))
        last = events[-1]["response"]
        assert accumulated(events) == last["output"], "the events do not add up to the response"
        check_response(last)
        return of_response(last)

    async def _chat(self, body: dict[str, Any]) -> Answer:
        return of_chat(json.loads(await self._post("/v1/chat/completions", as_chat(body))))


async def evaluate(url: str, key: str, options: argparse.Namespace, bias: str) -> Result:
    bodies = requests(options, bias_of(bias, options.model))
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=options.timeout, trust_env=False
    ) as http:
        return await Evaluation(http, options.concurrency).run(bodies)


def show(bias: str, result: Result) -> None:
    print(
        f"| {bias} | {result.cases} | {3 * result.cases} | {result.calls} | {result.cut} "
        f"| {result.repeated} | {result.violations.total()} | {result.seconds:.0f} |",
        flush=True,
    )
    for kind, count in result.violations.most_common():
        print(f"    {count} × {kind}: {result.examples[kind]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True, help="model directory")
    parser.add_argument("--url", help="a running gateway; without it, one is started")
    parser.add_argument("--key", default="")
    parser.add_argument("--bias", action="append", choices=BIASES, help="default: all")
    parser.add_argument("--cases", type=int, default=384)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300, help="seconds")
    options = parser.parse_args()
    exit_on_sigterm()
    started = nullcontext() if options.url else running("toolgate", options.model)
    with started as server:
        url, key = (server.url, server.key) if server else (options.url, options.key)
        options.name = options.model.name
        print("| bias | cases | requests | calls | cut | repeated | violations | s |", flush=True)
        print("|---|---|---|---|---|---|---|---|", flush=True)
        results = []
        for bias in options.bias or BIASES:
            results.append(asyncio.run(evaluate(url, key, options, bias)))
            show(bias, results[-1])
    total = sum(result.violations.total() for result in results)
    print("RESULT:", f"{total} violations" if total else "CLEAN")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
