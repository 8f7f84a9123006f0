"""Calls that hooks change, on each API: an invalid one is never sent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.fallbacks import APIS, STREAM, shown
from tests.support.litellm.guards import SCHEMA, TOOLS, Team, use_callback
from tests.support.litellm.own_route import PATHS, Gateway, Response, body_of
from tests.support.servers.script import Script, call


async def ask(gateway: Gateway, api: str, **params: Any) -> Response:
    body = body_of(api, "call", **{"tools": TOOLS[api], **params})
    return await gateway.ask(body, path=PATHS[api])


def replacing(old: str, new: str) -> Any:
    return lambda text: text.replace(old, new)


@APIS
@STREAM
@pytest.mark.parametrize(
    ("change", "sent"), [(("Z", "Q"), "QQ"), (("Hello", "Bye"), "ZZ")], ids=["valid", "none"]
)
async def test_valid_change_of_a_call_is_sent(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    stream: bool,
    change: tuple[str, str],
    sent: str,
) -> None:
    use_callback(monkeypatch, Team(replacing(*change)))
    response = await ask(gateway, api, stream=stream)
    assert (response.status, response.context.failed) == (200, False)
    assert sent in shown(response)
    assert sent == "ZZ" or "ZZ" not in shown(response)


@APIS
@STREAM
@pytest.mark.parametrize(
    "change", [("Z", "Y"), ("look", "leap"), ("look", "")], ids=["arguments", "tool", "no name"]
)
async def test_invalid_change_of_a_call_is_an_error(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    stream: bool,
    change: tuple[str, str],
) -> None:
    use_callback(monkeypatch, Team(replacing(*change)))
    response = await ask(gateway, api, stream=stream)
    assert response.context.error_code == "tool_schema_violation"
    sent, _, error = shown(response).partition("A callback of the gateway")
    assert error
    assert "YY" not in sent or "function_call" not in sent  # the tools are in the first event
    assert '"name":"leap","arguments"' not in sent
    assert '"name":"","arguments"' not in sent


@STREAM
async def test_text_of_a_custom_tool_may_change(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    gateway.backend.scripts["call"] = Script((call("patch", {"input": "ZZZZ"}),))
    tools = [{"type": "custom", "custom": {"name": "patch"}}]
    for new in ("Z", "Y"):
        use_callback(monkeypatch, Team(replacing("Z", new)))
        response = await ask(gateway, "chat", tools=tools, stream=stream)
        assert (response.status, response.context.failed) == (200, False)
        assert new in shown(response)
    assert "ZZ" not in shown(response)


@APIS
@STREAM
async def test_changed_content_must_satisfy_its_format(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    gateway.backend.scripts["call"] = Script(('{"a": "ZZZZ"}',))
    named = {"name": "x", "schema": SCHEMA}
    formats: dict[str, Any] = {
        "chat": {"response_format": {"type": "json_schema", "json_schema": named}},
        "responses": {"text": {"format": {"type": "json_schema", **named}}},
        "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    }
    for new, failed in (("Q", False), ("Y", True)):
        use_callback(monkeypatch, Team(replacing("Z", new)))
        response = await ask(gateway, api, stream=stream, tools=None, **formats[api])
        assert (response.status >= 400 or response.context.failed) == failed, shown(response)
