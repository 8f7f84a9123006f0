"""Validity and latency of calls with real JSON Schemas, through a whole server.

    python -m bench schemas --contender toolgate --contender vllm-strict --model MODEL_DIR

Each object schema of MaskBench (`$TOOLGATE_SHARED/data`) is the only tool of two `required`
requests, one streamed and one not. The calls are validated with python-jsonschema, which Toolgate
doesn't use, against the original schema in its own draft. Prints Markdown. Details are written to
`.cache/schemas/<contender>-<bias>.json`.
"""

import argparse
import asyncio
import json
import random
import re
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema.validators
import openai

from bench.support.contenders import CONTENDERS, Server, exit_on_sigterm, running
from bench.support.data import MASKBENCH, ROOT, records
from toolgate_proxy.demo.model import closers

OUT = ROOT / ".cache" / "schemas"
OUTCOMES = ("valid", "invalid", "given up", "rejected", "truncated", "error")
COUNTERS = (
    'toolgate_residual_calls_total{verdict="valid"}',
    'toolgate_residual_calls_total{verdict="invalid"}',
    'toolgate_resamples_total{before="value"}',
    'toolgate_resamples_total{before="call"}',
    "toolgate_resampled_tokens_total",
    "toolgate_enforcement_violations_total",
)
GIVEN_UP = "tool_schema_violation"


@dataclass
class Result:
    id: str
    stratum: str
    stream: bool
    outcome: str
    reason: str = ""
    enforced: str = ""
    """Value of the header `x-toolgate-enforced`, if any."""
    seconds: float = 0.0
    tokens: int = 0


@dataclass
class Run:
    contender: str
    bias: str
    results: list[Result] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


def cases(limit: int, max_bytes: int, seed: int) -> list[dict[str, Any]]:
    """A random sample of `limit` object schemas of MaskBench, of at most `max_bytes` each."""
    found: list[dict[str, Any]] = []
    for case in records(MASKBENCH):
        schema = case["schema"]
        if not isinstance(schema, dict) or len(json.dumps(schema)) > max_bytes:
            continue
        if schema.get("type") == "object" or ("properties" in schema and "type" not in schema):
            found.append(case)
    random.Random(seed).shuffle(found)
    return found[:limit]


async def send(
    client: openai.AsyncOpenAI, request: dict[str, Any], stream: bool
) -> tuple[str | None, str | None, str, int]:
    """Send one request. Returns finish reason, arguments, `x-toolgate-enforced`, and tokens."""
    raw = client.chat.completions.with_raw_response
    if not stream:
        response = await raw.create(**request)
        enforced = response.headers.get("x-toolgate-enforced", "")
        whole = response.parse()
        [choice] = whole.choices
        calls = choice.message.tool_calls or []
        arguments = calls[0].function.arguments if calls else None
        return choice.finish_reason, arguments, enforced, whole.usage.completion_tokens
    response = await raw.create(**request, stream=True, stream_options={"include_usage": True})
    enforced = response.headers.get("x-toolgate-enforced", "")
    finish: str | None = None
    arguments, tokens = None, 0
    async for chunk in response.parse():
        if chunk.usage is not None:
            tokens = chunk.usage.completion_tokens
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            for call in choice.delta.tool_calls or []:
                arguments = (arguments or "") + (call.function.arguments or "")
    return finish, arguments, enforced, tokens


def verdict(schema: dict[str, Any], arguments: str | None, finish: str | None) -> tuple[str, str]:
    if finish == "length":
        return "truncated", ""
    if arguments is None:
        return "invalid", f"no call, finish_reason {finish}"
    try:
        value = json.loads(arguments)
    except ValueError as error:
        return "invalid", f"not JSON: {error}"
    newest = jsonschema.Draft202012Validator
    validator = jsonschema.validators.validator_for(schema, default=newest)(schema)
    try:
        found = next(iter(validator.iter_errors(value)), None)
    except Exception as broken:  # noqa: BLE001 - the validator can't use some schemas
        return "valid", f"the validator failed: {type(broken).__name__}"
    return ("valid", "") if found is None else ("invalid", f"{found.validator}: {found.message}")


async def run_case(
    client: openai.AsyncOpenAI, options: argparse.Namespace, case: dict[str, Any], stream: bool
) -> Result:
    function = {"name": "submit", "description": "", "parameters": case["schema"]}
    if options.strict:
        function["strict"] = True
    request = {
        "model": options.name,
        "messages": [{"role": "user", "content": "Call the tool with made-up values."}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": options.max_tokens,
        "temperature": 1.0,
        "extra_body": {"chat_template_kwargs": {"enable_thinking": False}},
        **({"logit_bias": options.logit_bias} if options.logit_bias else {}),
    }
    result = Result(case["id"], case["stratum"], stream, "error")
    began = time.monotonic()
    try:
        finish, arguments, result.enforced, result.tokens = await send(client, request, stream)
        result.outcome, result.reason = verdict(case["schema"], arguments, finish)
    except openai.BadRequestError as error:
        message = error.body.get("message", "") if isinstance(error.body, dict) else error.message
        result.outcome, result.reason = "rejected", str(message)
    except openai.APIError as error:
        result.outcome, result.reason = "error", repr(error)
        if error.code == GIVEN_UP and isinstance(error.body, dict):
            result.outcome, result.reason = "given up", str(error.body["keyword"])
    result.seconds = time.monotonic() - began
    return result


async def measure(server: Server, contender: str, options: argparse.Namespace) -> Run:
    options.name = server.model_name()
    client = openai.AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key=server.key, max_retries=0, timeout=300
    )
    run = Run(contender, options.bias)
    before = counters(server) if contender == "toolgate" else {}
    slots = asyncio.Semaphore(options.concurrency)

    async def limited(case: dict[str, Any], stream: bool) -> Result:
        async with slots:
            return await run_case(client, options, case, stream)

    began = time.monotonic()
    sample = cases(options.cases, options.max_bytes, options.seed)
    pending = [limited(case, stream) for case in sample for stream in (False, True)]
    run.results = list(await asyncio.gather(*pending))
    run.seconds = time.monotonic() - began
    if contender == "toolgate":
        run.counters = {name: count - before[name] for name, count in counters(server).items()}
    return run


def counters(server: Server) -> dict[str, float]:
    text = server.get("/toolgate/metrics").decode()
    found = {
        name: re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE) for name in COUNTERS
    }
    return {name: float(match[1]) if match else 0.0 for name, match in found.items()}


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def report(runs: list[Run]) -> str:
    head = ["contender", "streamed", "requests", *OUTCOMES, "s p50", "s p95", "tokens p50"]
    rows = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for run in runs:
        for stream in (False, True):
            of = [result for result in run.results if result.stream is stream]
            found = Counter(result.outcome for result in of)
            seconds = [r.seconds for r in of if r.outcome in ("valid", "given up")]
            tokens = [float(result.tokens) for result in of if result.outcome == "valid"]
            cells = [run.contender, "yes" if stream else "no", str(len(of))]
            cells += [str(found[outcome]) for outcome in OUTCOMES]
            cells += [f"{percentile(seconds, share):.2f}" for share in (0.5, 0.95)]
            rows.append("| " + " | ".join([*cells, f"{percentile(tokens, 0.5):.0f}"]) + " |")
    for run in runs:
        rows.append(f"\n{run.contender}: {run.seconds:.0f} s in total")
        if run.contender == "toolgate":
            enforced = Counter(r.enforced for r in run.results if r.enforced)
            rows.append(f"responses by x-toolgate-enforced: {dict(enforced)}")
            rows += [f"{name}: {value:.0f}" for name, value in run.counters.items()]
        for outcome in ("invalid", "error", "given up", "rejected"):
            reasons = Counter(
                re.sub(r"[0-9a-f]{8,}|'[^']{40,}'", "…", result.reason)[:140]
                for result in run.results
                if result.outcome == outcome
            )
            rows += [f"- {outcome}, {n} ×: {reason}" for reason, n in reasons.most_common(12)]
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contender", action="append", choices=CONTENDERS, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--max-bytes", type=int, default=8_000)
    parser.add_argument("--max-tokens", type=int, default=700)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--bias", choices=("none", "closers"), default="closers")
    parser.add_argument("--strict", action="store_true", help="strict: true on every tool")
    options = parser.parse_args()
    options.model = options.model.resolve()
    options.logit_bias = closers(options.model) if options.bias == "closers" else None
    OUT.mkdir(parents=True, exist_ok=True)
    exit_on_sigterm()
    runs: list[Run] = []
    for contender in options.contender:
        with running(contender, options.model) as server:
            runs.append(asyncio.run(measure(server, contender, options)))
        path = OUT / f"{contender}-{options.bias}.json"
        path.write_text(json.dumps(asdict(runs[-1]), indent=1), encoding="utf-8")
    print(report(runs))
    toolgate_runs = [run for run in runs if run.contender == "toolgate"]
    bad = [r for run in toolgate_runs for r in run.results if r.outcome in ("invalid", "error")]
    return 1 if bad else 0
