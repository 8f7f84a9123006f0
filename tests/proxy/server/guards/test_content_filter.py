"""LiteLLM's own content filter as a guardrail of our models, on each API."""

from __future__ import annotations

import re
from typing import Any

import pytest
from litellm.proxy.guardrails.guardrail_hooks.litellm_content_filter import ContentFilterGuardrail
from litellm.types.guardrails import BlockedWord, ContentFilterAction

from tests.proxy.server.kit import APIS, STREAM
from tests.support.litellm.fallbacks import ask, shown
from tests.support.litellm.guards import use_callback
from tests.support.litellm.own_route import Gateway, Response, ours
from tests.support.litellm.router import use
from tests.support.servers.script import Script, call

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOLS: dict[str, dict[str, Any]] = {
    "chat": {"type": "function", "function": {"name": "look", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "look", "parameters": SCHEMA},
    "messages": {"name": "look", "input_schema": SCHEMA},
}
TEXT = re.compile(r'"(?:content|text|delta|arguments|partial_json)": ?"((?:[^"\\]|\\.)*)"')


def said(response: Response) -> str:
    """The response's text, and after it what its events say, joined: a stream may cut a word."""
    return shown(response) + "".join(TEXT.findall(shown(response)))


def content_filter(
    name: str, mode: str, *, default_on: bool = False, action: str = "BLOCK"
) -> ContentFilterGuardrail:
    word = BlockedWord(keyword=f"{name}ed", action=ContentFilterAction(action))
    return ContentFilterGuardrail(
        guardrail_name=name, blocked_words=[word], event_hook=mode, default_on=default_on
    )


@pytest.fixture(autouse=True)
def _filters(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = ours(gateway.backend, "guarded", guardrails=["request"])
    guarded["model_info"]["id"] = "guarded"
    use(monkeypatch, ours(gateway.backend), guarded)
    use_callback(
        monkeypatch,
        content_filter("ask", "pre_call", default_on=True),
        content_filter("answer", "post_call", default_on=True),
        content_filter("request", "post_call"),
        content_filter("mask", "post_call", action="MASK"),
    )
    gateway.backend.scripts |= {
        "bad": Script(("It was answered.",)),
        "named": Script(("It was requested.",)),
        "text": Script(("It was masked.",)),
        "argument": Script((call("look", {"a": "masked"}),)),
        "arguments": Script((call("look", {"a": "answered"}),)),
    }


async def asked(gateway: Gateway, api: str, content: str, **params: Any) -> Response:
    return await ask(gateway, api, content=content, tools=[TOOLS[api]], **params)


@APIS
@STREAM
async def test_requests_and_responses_with_blocked_words_end_with_an_error(gateway, api, stream):
    """Neither a text nor the arguments of a call are sent; others pass."""
    for model in ("tiny", "guarded"):
        response = await asked(gateway, api, "hi", stream=stream, model=model)
        assert response.status == 200
        assert "there" in said(response)
    before = len(gateway.backend.requests)
    assert (await asked(gateway, api, "I asked", stream=stream)).status in (400, 403)
    assert len(gateway.backend.requests) == before
    for content in ("bad", "arguments"):
        refused = await asked(gateway, api, content, stream=stream)
        assert refused.status in (400, 403) or stream, refused.bodies
        assert "error" in shown(refused)
        assert '"answered"' not in said(refused).replace("\\", "").replace("'answered'", "")
        assert "It was answered" not in said(refused)


@APIS
@STREAM
async def test_a_request_or_a_model_names_a_filter(gateway, api, stream):
    assert (await asked(gateway, api, "named", stream=stream)).status == 200
    for more in ({"guardrails": ["request"]}, {"model": "guarded"}):
        named = await asked(gateway, api, "named", stream=stream, **more)
        assert named.status in (400, 403) or stream, named.bodies
        assert "error" in shown(named)
        assert "It was requested" not in said(named)


@STREAM
@pytest.mark.parametrize(
    ("api", "content"),
    [*((api, "text") for api in TOOLS), ("chat", "argument"), ("responses", "argument")],
)
async def test_masked_words_are_not_sent(gateway, api, stream, content):
    """A stream in which the guardrail can't mask them is refused. LiteLLM itself masks no arguments
    of Messages."""
    response = await asked(gateway, api, content, stream=stream, guardrails=["mask"])
    assert "masked" not in said(response)
    if not stream:
        assert response.status == 200, response.bodies
        assert "REDACTED" in shown(response)
    elif (api, content) != ("chat", "text"):
        assert "error" in shown(response)
