"""The command line of the evaluations."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import httpx

from tests.long.api_conformance.cases import BIASES, bias_of, make_cases
from tests.long.api_conformance.evaluation import Evaluation, Result
from tests.support.servers.contenders import exit_on_sigterm, running
from toolgate_verify.terms import Api


def run(description: str, api: Api, others: Sequence[Api]) -> int:
    """Evaluates `api`, alone and against the others. Returns the exit status: 1 after a
    violation."""
    options = _options(description)
    exit_on_sigterm()
    started = nullcontext() if options.url else running("toolgate", options.model)
    with started as server:
        url, key = (server.url, server.key) if server else (options.url, options.key)
        print("| bias | cases | requests | calls | cut | repeated | violations | s |", flush=True)
        print("|---|---|---|---|---|---|---|---|", flush=True)
        results = []
        for bias in options.bias or BIASES:
            results.append(asyncio.run(_evaluate(url, key, options, bias, api, others)))
            _show(bias, results[-1])
    total = sum(result.violations.total() for result in results)
    print("RESULT:", f"{total} violations" if total else "CLEAN")
    return 1 if total else 0


def _options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True, help="model directory")
    parser.add_argument("--url", help="a running gateway; without it, one is started")
    parser.add_argument("--key", default="")
    parser.add_argument("--bias", action="append", choices=BIASES, help="default: all")
    parser.add_argument("--cases", type=int, default=384)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300, help="seconds")
    return parser.parse_args()


async def _evaluate(
    url: str, key: str, options: argparse.Namespace, bias: str, api: Api, others: Sequence[Api]
) -> Result:
    cases = make_cases(
        options.cases,
        model=options.model.name,
        bias=bias_of(bias, options.model),
        max_tokens=options.max_tokens,
        seed=options.seed,
    )
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=options.timeout, trust_env=False
    ) as http:
        return await Evaluation(http, api, others, options.concurrency).run(cases)


def _show(bias: str, result: Result) -> None:
    print(
        f"| {bias} | {result.cases} | {result.requests} | {result.calls} | {result.cut} "
        f"| {result.repeated} | {result.violations.total()} | {result.seconds:.0f} |",
        flush=True,
    )
    for kind, count in result.violations.most_common():
        print(f"    {count} × {kind}: {result.examples[kind]}", flush=True)
