"""`toolgate audit` of responses with calls of built-in tools, and with calls that the gateway
runs."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from litellm.proxy import proxy_server
from pydantic import SecretStr

from tests.support.litellm.mcp import LOOKUP, shop
from tests.support.litellm.own_route import Gateway
from tests.support.litellm.own_route_process import own_route
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script, call
from tests.support.servers.search_engine import running
from toolgate_proxy.cli.audit import AuditFailed, audit_line
from toolgate_proxy.cli.audit_log import read_line
from toolgate_proxy.receipts.keys import new_key, read_key

PRIVATE, PUBLIC = new_key("ed25519")
HI = {"role": "user", "content": "Which record is it?"}
SHOP = {"type": "mcp", "server_label": "shop", "server_url": "litellm_proxy/mcp/shop"}
ONE = call(LOOKUP, {"id": 7})
PATCH = {"operation": {"type": "update_file", "path": "a", "diff": "@@\n-b\n+c"}}
Json = dict[str, Any]


@pytest.fixture
async def signing(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Gateway]:
    """A gateway that signs receipts, with a search tool and an MCP server."""
    async with own_route(backend, monkeypatch, receipt_key=SecretStr(PRIVATE)) as gateway:
        with running() as engine:
            params = {"search_provider": "searxng", "api_base": engine.url}
            proxy_server.llm_router.search_tools = [
                {"search_tool_name": "searx", "litellm_params": params}
            ]
            async with shop(tmp_path / "calls"):
                yield gateway


async def asked(gateway: Gateway, path: str, body: Json, *turns: Script) -> Json:
    """Return the line of a log with the response."""
    gateway.backend.turns = [*turns]
    body = {"model": "tiny", "toolgate": {"receipt": True}} | body
    response = await gateway.ask(body, path=path)
    assert response.status == 200, response.bodies
    return {"request": body, "response": response.json}


def audit(line: Json) -> None:
    audit_line(read_line(json.dumps(line)), read_key(PUBLIC))


def responses(*tools: Json) -> Json:
    return {"input": [HI], "tools": [*tools]}


def messages(*tools: Json, **more: Any) -> Json:
    return {"messages": [HI], "max_tokens": 500, "tools": [*tools], **more}


BUILT_IN: tuple[tuple[str, Json], ...] = (
    ("shell", {"commands": ["ls"]}),
    ("shell", {"commands": ["ls"], "timeout_ms": 5}),
    ("local_shell", {"command": ["ls"]}),
    ("local_shell", {"command": ["ls"], "env": {}}),
    ("local_shell", {"command": ["ls"], "env": {"A": "b"}}),
    ("apply_patch", PATCH),
    ("web_search", {"query": "a"}),
)
"""Tools of the Responses API, and the arguments of a call."""
APPROVED = {**SHOP, "require_approval": "never"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "shop"}
OF_MESSAGES = [{"type": "url", "name": "shop", "url": "litellm_proxy/mcp/shop"}]


@pytest.mark.parametrize("with_request", [True, False])
@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        *(("/v1/responses", responses({"type": name}), call(name, of)) for name, of in BUILT_IN),
        ("/v1/responses", responses(APPROVED), ONE),
        ("/v1/responses", responses({**SHOP, "require_approval": "always"}), ONE),
        ("/v1/messages", messages(SEARCH), call("web_search", {"query": "a"})),
        ("/v1/messages", messages(TOOLSET, mcp_servers=OF_MESSAGES), ONE),
        ("/v1/chat/completions", messages(APPROVED), ONE),
    ],
)
async def test_a_true_response_passes_and_a_changed_one_fails(
    signing: Gateway, path: str, body: Json, text: str, *, with_request: bool
) -> None:
    line = await asked(signing, path, body, Script((text,)), Script(("Done.",)))
    if not with_request:
        del line["request"]
    audit(line)
    response = json.dumps(line["response"])
    for old, new in (("ls", "rm"), ("+c", "+d"), ('"a"', '"b"'), ("7", "8")):
        changed = copy.deepcopy(line)
        changed["response"] = _changed(json.loads(response), old, new)
        if changed != line:
            with pytest.raises(AuditFailed, match="arguments differ"):
                audit(changed)
            return
    raise AssertionError("no call has arguments")


def _changed(response: Json, old: str, new: str) -> Json:
    """Return a response whose calls have other arguments."""
    texts = ("arguments", "action", "operation", "input")

    def change(value: Any, inside: bool) -> Any:
        if isinstance(value, dict):
            return {name: change(each, inside or name in texts) for name, each in value.items()}
        if isinstance(value, list):
            return [change(each, inside) for each in value]
        if inside and isinstance(value, str | int):
            changed = json.dumps(value).replace(old, new)
            return json.loads(changed)
        return value

    kept = {name: response.pop(name) for name in ("toolgate", "tools") if name in response}
    return {**change(response, inside=False), **kept}


@pytest.mark.parametrize("tool", [{"type": "shell"}, {**SHOP, "require_approval": "always"}])
async def test_a_call_that_was_cut_and_is_not_shown_passes(signing: Gateway, tool: Json) -> None:
    text = ONE if tool["type"] == "mcp" else call("shell", {"commands": ["ls"]})
    script = Script((text[:-20],), finish="length")
    audit(await asked(signing, "/v1/responses", responses(tool), script))


async def test_an_approved_call_is_in_the_receipt_of_the_response_that_asked(
    signing: Gateway,
) -> None:
    body = responses({**SHOP, "require_approval": "always"})
    first = await asked(signing, "/v1/responses", body, Script((ONE,)))
    audit(first)
    request = first["response"]["output"][-1]
    answer = {
        "type": "mcp_approval_response",
        "approve": True,
        "approval_request_id": request["id"],
    }
    body["input"] = [HI, request, answer]
    audit(await asked(signing, "/v1/responses", body, Script(("Done.",))))
