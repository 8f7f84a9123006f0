"""Black-box evaluation of the Responses or the Messages API, alone and against the other APIs.

    python -m tests.long responses-conformance --model MODEL_DIR --bias closers --bias hostile
    python -m tests.long messages-conformance --model MODEL_DIR --url http://127.0.0.1:4000 --key …

Each case is a set of BFCL tools with a `tool_choice`, calls in parallel or not, and reasoning on,
off or by default; in the Messages API, half of them stream input eagerly. It is sent with the same
seed to the API whole and streamed, and to the others: to chat completions, and from the Messages
API also to the Responses API. Every answer is checked, events and bodies by the SDKs' own models,
and all must be equal. What else is in the engine's batch can change a sampled token, so a case
whose answers differ is repeated alone before it counts.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import httpx

from tests.long.api_conformance.cases import BIASES, bias_of, make_cases
from tests.long.api_conformance.evaluation import Evaluation, Result
from tests.support import commands
from tests.support.servers.contenders import exit_on_sigterm, running
from toolgate_verify.terms import Api

EVALUATIONS = {
    "responses-conformance": (Api.RESPONSES, [Api.CHAT]),
    "messages-conformance": (Api.MESSAGES, [Api.CHAT, Api.RESPONSES]),
}
"""By name of the program: the API, and those that it is compared with."""


def main() -> int:
    """Return the exit status: 1 after a violation."""
    api, others = EVALUATIONS[sys.argv[0].rpartition(" ")[2]]
    options = _options()
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


def _options() -> argparse.Namespace:
    parser = commands.parser_of(__doc__)
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
