"""The log of failed requests: one line each, without content of the request, on both routes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.schemas.residual_calls import BAD, TAGS, UNIQUE
from tests.support.servers.fake_backend import KEY, FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script, call
from tests.support.waiting import until
from toolgate_proxy.server.launcher import Route, make_config
from toolgate_proxy.stack.processes import free_port

CHAT = "/v1/chat/completions"
SECRETS = (
    *("swordfish", "secret_tool", "secret_property", "set_tags", "/tags", "Traceback"),
    *(MASTER_KEY, KEY),
)


def tool(name: str, **schema: Any) -> dict[str, Any]:
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


@pytest.fixture(scope="module")
def both_routes(
    backend_of_session: FakeBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A gateway with `tiny` on the own route. `mixed` also has a deployment of another provider, so
    it is on LiteLLM's route; `foreign` has only such a deployment, which does not respond."""
    config = make_config([Route("tiny", "tiny"), Route("mixed", "tiny")])
    config["model_list"][1]["litellm_params"]["weight"] = 1
    other = {
        "model": "hosted_vllm/tiny",
        "api_base": f"http://127.0.0.1:{free_port()}/v1",
        "api_key": "os.environ/TOOLGATE_BACKEND_KEY",
    }
    config["model_list"] += [
        {"model_name": "mixed", "litellm_params": other | {"weight": 0}},
        {"model_name": "foreign", "litellm_params": other},
    ]
    folder = tmp_path_factory.mktemp("both-routes")
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    with serving(["--config", str(path)], backend_of_session.url, folder / "log") as gateway:
        yield gateway


async def lines_of(
    gateway: Gateway, path: str, key: str, body: dict[str, Any]
) -> tuple[httpx.Response, list[str]]:
    """The response, and what the request added to the log."""
    size = gateway.log.stat().st_size
    async with http_client(gateway.url, headers=bearer(key), timeout=30) as http:
        response = await http.post(path, json=body)
    await until(lambda: any(" request_id=" in line for line in added(gateway.log, size)))
    await asyncio.sleep(0.1)  # LiteLLM logs some failures after the response
    return response, added(gateway.log, size)


def added(log: Path, size: int) -> list[str]:
    """The lines after `size` bytes, without those of GET requests: the line of the last health
    check of the start may come after it."""
    lines = log.read_bytes()[size:].decode().splitlines()
    return [line for line in lines if ' method="GET" ' not in line]


@pytest.mark.parametrize("model", ["tiny", "mixed"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", FAILING)
async def test_failed_request_leaves_one_line_without_content(
    both_routes: Gateway, spare_backend: FakeBackend, model: str, stream: bool, name: str
) -> None:
    failing = FAILING[name]
    spare_backend.residual["set_tags"] = (UNIQUE,)
    spare_backend.scripts["swordfish"] = failing.script or Script(("x",))
    messages = [{"role": "user", "content": "swordfish"}]
    body = {"model": model, "messages": messages, "stream": stream} | failing.body
    response, lines = await lines_of(both_routes, CHAT, MASTER_KEY, body)
    assert failing.code in response.text
    assert len(lines) == failing.lines, lines
    assert all(line.startswith("time=") for line in lines)
    status = f"status={response.status_code} "
    for part in (f'model="{model}"', status, f'error="{failing.code}"', f'path="{CHAT}"'):
        assert part in lines[-1]
    for secret in SECRETS:
        assert secret not in "".join(lines)


async def test_wrong_key_and_unknown_model_leave_one_line(both_routes: Gateway) -> None:
    body = {"model": "unknown", "messages": [{"role": "user", "content": "swordfish"}]}
    for key, path, error in (
        ("sk-wrong", CHAT, "invalid_api_key"),
        ("sk-wrong", "/v1/responses", "invalid_api_key"),
        (MASTER_KEY, CHAT, "model_not_found"),
    ):
        _, lines = await lines_of(both_routes, path, key, body)
        assert len(lines) == 1, lines
        assert f'error="{error}"' in lines[0]
        assert "swordfish" not in lines[0]


async def test_server_error_of_another_provider_has_its_cause(both_routes: Gateway) -> None:
    body = {"model": "foreign", "messages": [{"role": "user", "content": "swordfish"}]}
    response, lines = await lines_of(both_routes, CHAT, MASTER_KEY, body)
    assert response.status_code >= 500
    assert len(lines) == 1, lines
    assert 'cause="ConnectionRefusedError' in lines[0]
    for secret in SECRETS:
        assert secret not in lines[0]
