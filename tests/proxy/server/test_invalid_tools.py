"""`TOOLGATE_INVALID_TOOLS`, and slips in schemas that are read as they were meant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.own_route import PATHS, Gateway, Response, body_of
from toolgate_proxy.server.response_headers import own_headers

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
REFUSED = {"type": "object", "properties": {"b": {"type": "mixed"}}}
REMOTE = {"type": "object", "properties": {"c/ü": {"$ref": "https://example.com/x"}}}


def tool(api: str, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    match api:
        case "chat":
            return {"type": "function", "function": {"name": name, "parameters": schema}}
        case "responses":
            return {"type": "function", "name": name, "parameters": schema}
        case _:
            return {"name": name, "input_schema": schema}


async def ask(gateway: Gateway, api: str, tools: list[dict[str, Any]], **params: Any) -> Response:
    return await gateway.ask(body_of(api, tools=tools, **params), path=PATHS[api])


def offered(gateway: Gateway) -> list[str]:
    prompt: Any = gateway.backend.requests[-1].prompt
    return [each["function"]["name"] for each in prompt.tools or ()]


@pytest.fixture
def omitting(gateway: Gateway) -> Gateway:
    gateway.configure(invalid_tools="omit")
    return gateway


@pytest.mark.parametrize("api", PATHS)
async def test_invalid_tools_are_refused_by_default(gateway: Gateway, api: str) -> None:
    for name, schema in (("remote", REMOTE), ("refused_one", REFUSED)):
        response = await ask(gateway, api, [tool(api, "good", SCHEMA), tool(api, name, schema)])
        assert response.status == 400
        assert response.json["error"]["param"].startswith("tools[1].")


@pytest.mark.parametrize("api", PATHS)
async def test_invalid_tools_are_left_out(omitting: Gateway, api: str) -> None:
    """Those that the gateway finds, and those that the backend refuses."""
    tools = [
        tool(api, "two words", SCHEMA),
        tool(api, "remote", REMOTE),
        tool(api, "refused_one", REFUSED),
        tool(api, "good", SCHEMA),
    ]
    response = await ask(omitting, api, tools)
    assert response.status == 200
    assert offered(omitting) == ["good"]
    assert own_headers(response.context)["x-toolgate-invalid-tools"] == (
        "tools[0], remote; at=/properties/c~1%C3%BC/$ref, refused_one; at=/not"
    )
    if api == "responses":
        assert [each["name"] for each in response.json["tools"]] == ["good"]


@pytest.mark.parametrize("api", PATHS)
async def test_places_are_those_of_the_request_beside_hosted_tools(
    omitting: Gateway, api: str
) -> None:
    hosted = {"type": "web_search_20250305", "name": "web_search"}
    tools = [hosted, tool(api, "two words", SCHEMA), tool(api, "good", SCHEMA)]
    response = await ask(omitting, api, tools)
    assert response.status == 200
    assert offered(omitting) == ["good"]
    headers = own_headers(response.context)
    assert headers["x-toolgate-omitted-tools"] == "web_search_20250305"
    assert headers["x-toolgate-invalid-tools"] == "tools[1]"


@pytest.mark.parametrize("api", PATHS)
async def test_errors_of_the_backend_have_places_beside_hosted_tools(
    gateway: Gateway, api: str
) -> None:
    hosted = {"type": "web_search_20250305", "name": "web_search"}
    tools = [hosted, tool(api, "good", SCHEMA), tool(api, "refused_one", REFUSED)]
    response = await ask(gateway, api, tools)
    assert response.status == 400
    place = {"chat": "function.parameters", "messages": "input_schema"}.get(api, "parameters")
    error = response.json["error"]
    assert (error["code"], error["pointer"]) == ("schema_not_enforceable", "/not")
    assert error["param"] == f"tools[2].{place}"


async def test_without_a_valid_tool_the_model_answers(omitting: Gateway) -> None:
    response = await ask(omitting, "chat", [tool("chat", "refused_one", REFUSED)])
    assert response.status == 200
    assert offered(omitting) == []


@pytest.mark.parametrize("name", ["remote", "refused_one"])
@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "function": {"name": "NAME"}},
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "auto",
                "tools": [{"type": "function", "function": {"name": "NAME"}}],
            },
        },
    ],
)
async def test_a_choice_of_an_invalid_tool_is_refused(
    omitting: Gateway, name: str, choice: dict[str, Any]
) -> None:
    broken = tool("chat", name, {"remote": REMOTE}.get(name, REFUSED))
    chosen = _renamed(choice, name)
    tools = [tool("chat", "good", SCHEMA), broken]
    response = await ask(omitting, "chat", tools, tool_choice=chosen)
    assert (response.status, response.json["error"]["code"]) == (400, "schema_not_enforceable")


async def test_allowed_tools_may_contain_an_invalid_one(omitting: Gateway) -> None:
    named = [{"type": "function", "function": {"name": n}} for n in ("refused_one", "good")]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": named}}
    tools = [tool("chat", "good", SCHEMA), tool("chat", "refused_one", REFUSED)]
    assert (await ask(omitting, "chat", tools, tool_choice=choice)).status == 200
    assert [each.name for each in omitting.backend.requests[-1].enforcement.candidates] == ["good"]


async def test_a_required_call_needs_a_valid_tool(omitting: Gateway) -> None:
    for name, schema in (("remote", REMOTE), ("refused_one", REFUSED)):
        tools = [tool("chat", name, schema)]
        response = await ask(omitting, "chat", tools, tool_choice="required")
        assert (response.status, response.json["error"]["code"]) == (400, "schema_not_enforceable")


@pytest.mark.parametrize("api", PATHS)
async def test_an_error_names_all_tools_that_were_left_out(omitting: Gateway, api: str) -> None:
    """Hosted ones, those that the gateway finds invalid, and those that the backend refuses."""
    required: Any = {"type": "any"} if api == "messages" else "required"
    search = {"type": "web_search_20250305", "name": "web_search"}
    for name, schema, pointer in (
        ("remote", REMOTE, "/properties/c~1ü/$ref"),
        ("refused_one", REFUSED, "/not"),
    ):
        alone = await ask(omitting, api, [tool(api, name, schema)], tool_choice=required)
        assert (alone.status, alone.json["error"]["pointer"]) == (400, pointer)
        assert f"'{name}' is invalid: " in alone.json["error"]["message"]
        tools = [search, tool(api, "two words", SCHEMA), tool(api, name, schema)]
        response = await ask(omitting, api, tools, tool_choice=required)
        message = response.json["error"]["message"]
        assert response.status == 400
        for part in ("'web_search_20250305' is a hosted tool", "'tools[1]'", f"'{name}'"):
            assert part in message
    hosted = await ask(omitting, api, [search], tool_choice=required)
    assert (hosted.status, hosted.json["error"]["param"]) == (400, "tools")


async def test_tools_that_are_left_out_are_not_counted(omitting: Gateway) -> None:
    tools = [tool("messages", name, SCHEMA) for name in ("good", "refused_one")]
    body: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}

    async def counted() -> list[str]:
        response = await omitting.ask(body | {"tools": tools}, path="/v1/messages/count_tokens")
        assert response.status == 200
        prompt: Any = omitting.backend.counts[-1].prompt
        return [each["function"]["name"] for each in prompt.tools]

    assert await counted() == ["good"]
    omitting.configure(invalid_tools="refuse")
    assert await counted() == ["good", "refused_one"]  # a request for a response is refused


async def test_a_response_format_is_never_left_out(omitting: Gateway) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}
    response = await ask(omitting, "chat", [], response_format=form)
    assert (response.status, response.json["error"]["code"]) == (400, "schema_not_enforceable")


@pytest.mark.parametrize("api", PATHS)
async def test_corrected_slips_are_in_a_header(gateway: Gateway, api: str) -> None:
    slips = {"type": "OBJECT", "properties": {"a": {"type": "string", "required": True}}}
    tools = [tool(api, "good", SCHEMA), tool(api, "slips", slips)]
    response = await ask(gateway, api, tools)
    assert response.status == 200
    assert own_headers(response.context)["x-toolgate-corrected"] == "1; keywords=required,type"
    prompt: Any = gateway.backend.requests[-1].prompt
    assert prompt.tools[1]["function"]["parameters"] == SCHEMA
    again = await ask(gateway, api, tools[:1])
    assert "x-toolgate-corrected" not in own_headers(again.context)


async def test_tools_that_are_sent_twice_count_once(gateway: Gateway) -> None:
    tools = [tool("chat", "good", SCHEMA), tool("chat", "good", SCHEMA)]
    assert (await ask(gateway, "chat", tools)).status == 200
    assert offered(gateway) == ["good"]


def _renamed(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, name) for each in value]
    return name if value == "NAME" else value
