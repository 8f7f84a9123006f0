"""Bad input: HTTP 400, an OpenAI error body, the parameter named, before any token."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from tests import tools

USER = [{"role": "user", "content": "hi"}]


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def with_schema(**schema: Any) -> dict[str, Any]:
    return {"tools": [tools.tool("a", {"x": schema})], "tool_choice": "required"}


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown tool": (
        {"tools": [tools.WEATHER], "tool_choice": named("nope")},
        "tool_choice",
        "unknown_tool",
    ),
    "duplicate names": (
        {"tools": [tools.TAGS, tools.tool(tools.TAGS["function"]["name"], {})]},
        "tools[1].function.name",
        "invalid_tools",
    ),
    "required without tools": ({"tool_choice": "required"}, "tools", "invalid_tools"),
    "a reference that leads out of the schema": (
        with_schema(**{"$ref": "https://example.com/schema"}),
        "tools[0].function.parameters",
        "schema_not_enforceable",
    ),
    "an unknown type": (
        with_schema(type="strange"),
        "tools[0].function.parameters",
        "schema_not_enforceable",
    ),
    "the template refuses": (
        {"messages": [{"role": "stranger", "content": "hi"}]},
        "messages",
        "template_refused",
    ),
    "a prompt that does not fit": (
        {"messages": [{"role": "user", "content": "word " * 20_000}]},
        "messages",
        "context_length_exceeded",
    ),
    "a bias on a token that there is not": (
        {"logit_bias": {"999999": 1}},
        "logit_bias",
        "invalid_request",
    ),
    "max_tokens that do not fit": (
        {"max_tokens": 100_000},
        "max_tokens",
        "context_length_exceeded",
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", REFUSED)
def test_invalid_requests_are_answered_400_naming_the_parameter(
    client: openai.OpenAI, name: str, stream: bool
) -> None:
    request, param, code = REFUSED[name]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            **{"model": "tiny", "messages": USER, "max_tokens": 20, "stream": stream, **request}
        )
    body = refused.value.body
    assert isinstance(body, dict)
    assert (body["param"], body["code"]) == (param, code)
    assert body["type"] == "invalid_request_error"
    assert body["message"]


def test_pointer_names_the_refused_keyword(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model="tiny", messages=USER, **with_schema(type="array", minItems=-1)
        )
    assert isinstance(refused.value.body, dict)
    assert refused.value.body["pointer"] == "/properties/x/minItems"


def test_a_wrong_key_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="sk-wrong").chat.completions.create(model="tiny", messages=USER)


@pytest.mark.parametrize("path", ["/info", "/status", "/grammars", "/generate"])
def test_the_backends_routes_require_vllms_key(backend: httpx.Client, path: str) -> None:
    url = f"{backend.base_url}".rstrip("/") + path
    for method in ("GET", "PUT", "POST"):
        answer = httpx.request(method, url, content=b"{}", trust_env=False)
        assert answer.status_code == 401
