"""Random requests to a running gateway, whose responses are checked.

    python -m tests.long fuzz URL KEY --model NAME [--api chat] [--requests 10000]
        [--concurrency 32] [--seed 0] [--backend URL --backend-key KEY] [--bias FILE]

Parameters, messages, tools, token budgets and disconnecting clients are drawn at random
(requests.py). Some requests are invalid, or damaged (checks.py). Each response is checked
against its request. The exit status is 1 after a violation, after an HTTP 5xx, or if
the gateway or the backend still has requests, sequences or pinned grammars in the end. `--bias` is
a JSON file with a logit_bias, for models that would rarely end a string.
"""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.long.fuzz.checks import Request, check_rejection, check_response, unasked_reasoning
from tests.long.fuzz.requests import make_request
from tests.support import commands
from tests.support.apis import replies
from tests.support.servers.http_client import http_client
from toolgate_core import wire
from toolgate_verify.terms import Api

SHOWN = 20
"""Violations that are printed in full."""


@dataclass
class Findings:
    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def report(self) -> str:
        counts = "  ".join(f"{name} {count}" for name, count in sorted(self.outcomes.items()))
        lines = [f"{sum(self.outcomes.values())} requests: {counts}"]
        lines += self.violations[:SHOWN]
        lines.append(f"{len(self.violations)} violations")
        return "\n".join(lines)


async def fuzz(
    url: str,
    key: str,
    *,
    model: str,
    count: int,
    concurrency: int,
    seed: int,
    bias: dict[str, float] | None = None,
    api: Api = Api.CHAT,
) -> Findings:
    findings, slots = Findings(), asyncio.Semaphore(concurrency)
    async with http_client(url, key, timeout=300) as http:

        async def one(number: int) -> None:
            request = make_request(api, random.Random(f"{seed}:{number}"), model, bias)
            async with slots:
                outcome, violations = await send(http, api, request)
            findings.outcomes[outcome] += 1
            body = json.dumps(request.body)[:1500]
            findings.violations += [f"#{number} {each}\n    {body}" for each in violations]

        await asyncio.gather(*(one(number) for number in range(count)))
    return findings


async def send(http: httpx.AsyncClient, api: Api, request: Request) -> tuple[str, list[str]]:
    """Send a request. Returns the kind of outcome, and the violations found in the response."""
    body = json.dumps(request.body).encode()  # in ASCII: damaged bodies have lone surrogates
    headers = {"content-type": "application/json"}
    try:
        response = await asyncio.wait_for(
            http.post(replies.PATHS[api], content=body, headers=headers), request.hang_up
        )
    except TimeoutError:
        return "disconnected", []
    except httpx.TransportError as error:
        return "connection error", [f"connection error: {error!r}"]
    status, data = response.status_code, response.content
    streamed = response.headers["content-type"].startswith("text/event-stream")
    try:
        if status != 200:
            refusal = replies.error(api, json.loads(data))
            return f"{status}", check_rejection(status, refusal, request)
        made = replies.read(api, data, streamed=streamed)
    except replies.REFUSED as failure:
        return "invalid response", [
            f"HTTP {status}, invalid response: {failure!r}: {data[-600:]!r}"
        ]
    found = check_response(made, request)
    if not (request.wrong or request.invalid):
        if streamed != request.body["stream"]:
            found.append("a stream" if streamed else "no stream")
        found += [each for reply in made for each in unasked_reasoning(api, reply, request)]
    return "200", found


async def left_in_gateway(url: str, key: str) -> list[str]:
    """Check that the gateway has no requests in flight. `key`: the administrator's."""
    async with http_client(url, key, timeout=300) as http:
        for _ in range(50):
            response = await http.get("/toolgate/status")
            if response.status_code in (401, 403):
                return []
            status = response.raise_for_status().json()
            backends = [each for model in status["models"] for each in model["backends"]]
            left = [*(each["requests"] for each in backends), status["limits"]["in_flight"]]
            if not any(left):
                return []
            await asyncio.sleep(0.2)
    return [f"in flight in the gateway, by backend and under limits: {left}"]


async def left_behind(backend: str, key: str) -> list[str]:
    """Check that the backend has nothing left. The status is read after an engine step."""
    probe = {"format": wire.FORMAT, "request_id": "fuzz", "model": "", "stream": False}
    probe |= {"prompt": {"kind": "tokens", "token_ids": [1, 2]}, "sampling": {"max_tokens": 2}}
    async with http_client(backend, key, timeout=300) as http:
        probe["model"] = (await http.get("/v1/toolgate/info")).json()["model"]
        for _ in range(50):
            await asyncio.sleep(0.2)
            await http.post("/v1/toolgate/generate", json=probe)
            status = (await http.get("/v1/toolgate/status")).json()
            left = {name: status[name] for name in ("running", "sequences", "pinned_grammars")}
            if not any(left.values()):
                return []
    return [f"left in the backend: {left}"]


def main() -> int:
    parser = commands.parser_of(__doc__)
    parser.add_argument("url", help="URL of the gateway")
    parser.add_argument("key", help="API key")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--api", choices=[*Api], type=Api, default=Api.CHAT)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bias", type=Path, help="JSON file with a logit_bias")
    parser.add_argument("--backend", help="URL of the backend, to check that nothing is left")
    parser.add_argument("--backend-key", default="")
    arguments = parser.parse_args()
    findings = asyncio.run(
        fuzz(
            arguments.url,
            arguments.key,
            model=arguments.model,
            count=arguments.requests,
            concurrency=arguments.concurrency,
            seed=arguments.seed,
            bias=json.loads(arguments.bias.read_text()) if arguments.bias else None,
            api=arguments.api,
        )
    )
    findings.violations += asyncio.run(left_in_gateway(arguments.url, arguments.key))
    if arguments.backend:
        findings.violations += asyncio.run(left_behind(arguments.backend, arguments.backend_key))
    print(findings.report())
    return bool(findings.violations)
