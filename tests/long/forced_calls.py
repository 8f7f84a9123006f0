"""A forced call with each schema of real tools, in several forms of calls, through a server.

    python -m tests.long forced-calls --forms qwen3 glm47

Each of the 722 schemas of `$TOOLGATE_SHARED/data/tool-schemas.jsonl.gz` is the only tool of one
request with `tool_choice: "required"`, `max_tokens` 400, and biases towards the tokens that end
strings, objects and responses. Finished calls are validated with python-jsonschema, which Toolgate
doesn't use, against the schema as it was sent. Prints a Markdown table with a row for each form,
and what was refused. The exit status is 1 if a call was invalid or a request failed.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import jsonschema.validators

from tests.long.hostile_calls.load import biases
from tests.models import ROOT, tiny_family
from tests.support import commands, markdown
from tests.support.schemas.suites import FORMS, SCHEMAS
from tests.support.servers.contenders import Server, exit_on_sigterm, running
from toolgate_core.dialects.registry import DIALECTS

OUTCOMES = ("valid", "cut", "refused", "failed", "invalid")
MAX_TOKENS = 400


@dataclass(frozen=True)
class Outcome:
    """What became of one request. `reason` names the error, or why the call is invalid."""

    kind: str
    reason: str = ""
    enforced: str = ""
    """Value of the header `x-toolgate-enforced`."""


def real_schemas() -> list[dict[str, Any]]:
    """The tools as their `name`, `source` and `schema`, which is not always a JSON Schema."""
    with gzip.open(SCHEMAS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def judge(schema: Any, arguments: str) -> str:
    """Why the arguments are invalid, or an empty string."""
    try:
        value = json.loads(arguments)
    except ValueError as error:
        return f"not JSON: {error}"
    newest = jsonschema.Draft202012Validator
    schema = with_null(schema)
    try:
        validator = jsonschema.validators.validator_for(schema, default=newest)(schema)
        found = next(iter(validator.iter_errors(value)), None)
    except Exception:  # noqa: BLE001 - a slip such as `type: "STRING"` is read as it was meant
        return ""
    return "" if found is None else f"{found.validator}: {found.message}"


def with_null(schema: Any) -> Any:
    """The schema, with what `nullable: true` of OpenAPI 3.0 means beside a `type` or `enum`."""
    if isinstance(schema, list):
        return [with_null(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    read = {name: with_null(each) for name, each in schema.items()}
    return {"anyOf": [read, {"type": "null"}]} if schema.get("nullable") is True else read


async def forced_call(
    client: httpx.AsyncClient, model: str, schema: Any, bias: dict[str, float]
) -> Outcome:
    function = {"name": "submit", "description": "", "parameters": schema}
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Call the tool with made-up values."}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": MAX_TOKENS,
        "temperature": 1.0,
        "seed": 1,
        "logit_bias": bias,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    answer = await client.post("/v1/chat/completions", json=body)
    if answer.status_code != 200:
        error = answer.json()["error"]
        kind = "refused" if answer.status_code == 400 else "failed"
        return Outcome(kind, f"{error['code']}: {error['message']}")
    enforced = answer.headers.get("x-toolgate-enforced", "")
    [choice] = answer.json()["choices"]
    if choice["finish_reason"] == "length":
        return Outcome("cut", enforced=enforced)
    calls = choice["message"].get("tool_calls") or []
    if len(calls) != 1:
        return Outcome("invalid", f"{len(calls)} calls", enforced)
    why = judge(schema, calls[0]["function"]["arguments"])
    return Outcome("invalid" if why else "valid", why, enforced)


async def forced_calls(server: Server, bias: dict[str, float], streams: int) -> list[Outcome]:
    """The outcome of each schema, with up to `streams` requests at the same time."""
    slots = asyncio.Semaphore(streams)
    model = server.model_name()
    headers = {"authorization": f"Bearer {server.key}"}
    # The server closes idle connections, possibly while the client uses one again.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(
        base_url=server.url, headers=headers, timeout=300, trust_env=False, limits=limits
    ) as client:

        async def one(schema: Any) -> Outcome:
            async with slots:
                return await forced_call(client, model, schema, bias)

        return list(await asyncio.gather(*(one(tool["schema"]) for tool in real_schemas())))


def row(form: str, outcomes: list[Outcome]) -> str:
    kinds = Counter(outcome.kind for outcome in outcomes)
    full = sum(outcome.enforced == "full" for outcome in outcomes)
    cells = [f"`{form}`", *(str(kinds[kind]) for kind in OUTCOMES), str(full)]
    return markdown.row(cells)


def reasons(outcomes: Iterable[Outcome]) -> list[str]:
    """The errors, each with its number of requests. Quoted names are left out."""
    found = Counter(
        (outcome.kind, re.sub(r"'[^']*'|`[^`]*`|\"[^\"]*\"|\d+", "…", outcome.reason)[:160])
        for outcome in outcomes
        if outcome.reason
    )
    return [f"- {kind}, {n} ×: {reason}" for (kind, reason), n in found.most_common()]


def main() -> int:
    parser = commands.parser_of(__doc__)
    parser.add_argument("--forms", nargs="+", default=FORMS, help="names of dialects")
    parser.add_argument("--streams", type=int, default=8, help="requests at the same time")
    parser.add_argument("--json", type=Path, help="file for the outcome of each request")
    options = parser.parse_args()
    exit_on_sigterm()
    found: dict[str, list[Outcome]] = {}
    print(markdown.head(["form", *OUTCOMES, "wholly masked"]), flush=True)
    for form in options.forms:
        model = ROOT / ".cache" / "models" / f"tiny-{form}"
        tiny_family.build(model, DIALECTS[form])
        bias, *_ = biases(DIALECTS[form], model)
        with running("toolgate", model) as server:
            found[form] = asyncio.run(forced_calls(server, bias, options.streams))
        print(row(form, found[form]), flush=True)
    for form, outcomes in found.items():
        print(f"\n{form}:\n", *reasons(outcomes), sep="\n")
    if options.json:
        named = [tool["name"] for tool in real_schemas()]
        each = {
            form: [
                [name, *vars(outcome).values()] for name, outcome in zip(named, all_, strict=True)
            ]
            for form, all_ in found.items()
        }
        options.json.write_text(json.dumps(each, indent=1), encoding="utf-8")
    bad = {outcome.kind for outcomes in found.values() for outcome in outcomes}
    return 1 if bad & {"invalid", "failed"} else 0
