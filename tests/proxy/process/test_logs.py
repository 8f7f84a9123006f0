"""The log of requests: one line each, without content of the request, on both routes."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from tests.proxy.process.kit import BOTH_ROUTES, CHAT, RESPONSES
from tests.support.effort import sampled
from tests.support.schemas.residual_calls import BAD, TAGS, UNIQUE
from tests.support.servers.fake_backend import KEY
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import make_key
from tests.support.waiting import until

SECRET_WORDS = "my secret is swordfish"


async def logged(log, word):
    def found():
        lines = log.read_text(errors="replace").splitlines()
        return [each for each in lines if word in each and each.startswith("time=")]

    return (await until(found))[-1]


@BOTH_ROUTES
async def test_log_line_has_key_model_status_and_usage(
    gateway, gateway_log, redis_of_gateway, backend, route
):
    alias = f"logged-{route}"
    backend.scripts[SECRET_WORDS] = Script(("I shall say nothing",))
    sent, _ = await make_key(redis_of_gateway.url, gateway, alias=alias, team="web")
    body = {"model": "tiny", "messages": [{"role": "user", "content": SECRET_WORDS}]}
    async with http_client(gateway, timeout=60) as http:
        response = await http.post(CHAT, json=body, headers=bearer(sent))
        assert response.status_code == 200
        assert backend.requests[-1].request_id.startswith(f"{response.headers['x-request-id']}.")
        await http.post(CHAT, json=body, headers=bearer(MASTER_KEY))
    told = await logged(gateway_log, alias)
    for part in (
        f'request_id="{response.headers["x-request-id"]}"',
        f'call_id="{response.headers["x-litellm-call-id"]}"',
        f'key="{alias}"', 'team="web"', 'model="tiny"', "status=200",
        "prompt_tokens=11", "completion_tokens=8", "seconds=", "whole=true",
    ):  # fmt: skip
        assert part in told
    assert await logged(gateway_log, 'key="master"')
    everything = gateway_log.read_text(errors="replace")
    for secret in (sent, MASTER_KEY, KEY, "swordfish", "say nothing"):
        assert secret not in everything


@BOTH_ROUTES
async def test_status_and_log_show_the_route(http, gateway_log, route):
    models = (await http.get("/toolgate/status")).json()["models"]
    (tiny,) = (each for each in models if each["model"] == "tiny")
    reason = None if route == "own" else "TOOLGATE_ROUTE=litellm"
    assert (tiny["route"], tiny["reason"]) == (route, reason)
    said = "own route." if reason is None else f"LiteLLM's route, because of {reason}."
    assert f"Model tiny: {said}" in gateway_log.read_text()


SECRETS = (
    *("swordfish", "secret_tool", "secret_property", "set_tags", "/tags", "Traceback"),
    *(MASTER_KEY, KEY),
)


def tool(name, **schema):
    parameters = {"type": "object", "properties": {"secret_property": schema}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@dataclass(frozen=True)
class Failing:
    """A request that fails. `lines`: in the log."""

    code: str
    body: dict[str, Any]
    script: Script | None = None
    lines: int = 1


ERROR = {"message": "swordfish", "type": "invalid_request_error", "param": "messages"}
FAILING = {
    "parameter": Failing("invalid_request", {"temperature": "swordfish"}),
    "unknown parameter": Failing("unsupported_parameter", {"swordfish": 1}),
    "tool": Failing("invalid_tools", {"tools": [tool("secret_tool!", type="string")]}),
    "schema": Failing("schema_not_enforceable", {"tools": [tool("refused_secret_tool")]}),
    "backend refuses": Failing(
        "context_length_exceeded",
        {},
        Script((), error_status=400, error=ERROR | {"code": "context_length_exceeded"}),
    ),
    "backend busy": Failing(
        "backend_unavailable", {}, Script((), error_status=503, error=ERROR | {"code": "busy"})
    ),
    "backend breaks": Failing("backend_failed", {}, Script(("swordfish " * 9,), break_after=3)),
    "residual call": Failing(
        "tool_schema_violation", {"tools": [TAGS]}, Script((BAD,), again=(BAD,) * 6)
    ),
    "enforced call": Failing(
        "enforcement_failed",
        {"tools": [tool("secret_tool", type="integer")]},
        Script((call("secret_tool", {"secret_property": "swordfish"}),)),
        lines=2,  # a bug of Toolgate: the schema's hash and the keyword
    ),
}


async def lines_of(gateway, path, key, body):
    """The response, and what the request added to the log."""
    size = gateway.log.stat().st_size
    async with http_client(gateway.url, key, timeout=60) as http:
        response = await http.post(path, json=body)
    await until(lambda: any(" request_id=" in line for line in added(gateway.log, size)))
    await asyncio.sleep(0.1)  # LiteLLM logs some failures after the response
    return response, added(gateway.log, size)


def added(log, size):
    """The lines after `size` bytes, without those of GET requests: the line of the last health
    check of the start may come after it. On a busy machine, Redis and backends may not respond in
    time."""
    lines = log.read_bytes()[size:].decode().splitlines()
    others = (' method="GET" ', "toolgate_proxy.redis_client", "toolgate_proxy.routing.deployments")
    return [line for line in lines if not any(other in line for other in others)]


@pytest.mark.parametrize("model", ["tiny", "mixed"])
@pytest.mark.usefixtures("team")
@sampled("name, stream", FAILING, [False, True], one_in=3)
async def test_failed_request_leaves_one_line_without_content(
    configured, spare_backend, model, stream, name
):
    failing = FAILING[name]
    spare_backend.residual["set_tags"] = (UNIQUE,)
    spare_backend.scripts["swordfish"] = failing.script or Script(("x",))
    messages = [{"role": "user", "content": "swordfish"}]
    body = {"model": model, "messages": messages, "stream": stream} | failing.body
    response, lines = await lines_of(configured.gateway, CHAT, MASTER_KEY, body)
    assert failing.code in response.text
    assert len(lines) == failing.lines, lines
    assert all(line.startswith("time=") for line in lines)
    status = f"status={response.status_code} "
    for part in (f'model="{model}"', status, f'error="{failing.code}"', f'path="{CHAT}"'):
        assert part in lines[-1]
    for secret in SECRETS:
        assert secret not in "".join(lines)


@pytest.mark.usefixtures("team")
async def test_other_failures_leave_one_line(configured):
    """That of another provider's server has its cause."""
    body = {"model": "unknown", "messages": [{"role": "user", "content": "swordfish"}]}
    for key, path, model, part in (
        ("sk-wrong", CHAT, "unknown", 'error="invalid_api_key"'),
        ("sk-wrong", RESPONSES, "unknown", 'error="invalid_api_key"'),
        (MASTER_KEY, CHAT, "unknown", 'error="model_not_found"'),
        (MASTER_KEY, CHAT, "foreign", 'cause="ConnectionRefusedError'),
    ):
        response, lines = await lines_of(configured.gateway, path, key, body | {"model": model})
        assert response.status_code >= (500 if model == "foreign" else 400)
        assert len(lines) == 1, lines
        assert part in lines[0]
        for secret in SECRETS:
            assert secret not in lines[0]
