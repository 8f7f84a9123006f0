"""Responses and Messages of a running gateway, through the SDKs of OpenAI and Anthropic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from anthropic import beta_async_tool
from pydantic import BaseModel

from tests.proxy.process.kit import MESSAGES, RESPONSES
from tests.support.apis.messages_api import check_error
from tests.support.apis.sdk_requests import SCRIPTS, WEATHER
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import http_client
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import make_key

FUNCTION: Any = WEATHER["function"]
TOOLS: dict[str, Any] = {
    RESPONSES: {"type": "function", "strict": False, **FUNCTION},
    MESSAGES: {"name": FUNCTION["name"], "input_schema": FUNCTION["parameters"]},
}
TOOL, ITEM_TOOL = TOOLS[MESSAGES], TOOLS[RESPONSES]


class City(BaseModel):
    city: str


PARSED = {"parsed": Script(('{"city": "Oslo"}',))}


@pytest.fixture
async def sdk(gateway: str, backend: FakeBackend) -> AsyncIterator[anthropic.AsyncAnthropic]:
    backend.scripts |= SCRIPTS | PARSED
    async with anthropic.AsyncAnthropic(
        base_url=gateway, api_key=MASTER_KEY, max_retries=0
    ) as client:
        yield client


def request(script: str, **params: Any) -> dict[str, Any]:
    return {
        "model": "tiny",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": script}],
        **params,
    }


async def test_anthropics_sdk_creates_streams_and_parses(sdk, backend):
    created = await sdk.messages.create(**request("content"))
    assert created.content[0].type == "text"
    assert created.content[0].text == "Hello there, friend"
    assert (created.stop_reason, created._request_id is not None) == ("end_turn", True)
    async with sdk.messages.stream(**request("call", tools=[TOOL])) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_message()
    assert kinds[-1] == "message_stop"
    assert (final.content[0].type, final.stop_reason) == ("tool_use", "tool_use")
    async with sdk.messages.stream(**request("content")) as stream:
        assert "".join([text async for text in stream.text_stream]) == "Hello there, friend"
    parsed = await sdk.messages.parse(**request("parsed"), output_format=City)
    assert parsed.parsed_output == City(city="Oslo")


async def test_openais_sdk_creates_streams_and_parses(client, backend):
    backend.scripts |= SCRIPTS | PARSED
    created = await client.responses.create(model="tiny", input="content")
    assert created.output_text == "Hello there, friend"
    async with client.responses.stream(model="tiny", input="call", tools=[ITEM_TOOL]) as stream:
        seen = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert seen[-1] == "response.completed"
    assert final.output[0].type == "function_call"
    parsed = await client.responses.parse(model="tiny", input="parsed", text_format=City)
    assert parsed.output_parsed == City(city="Oslo")


async def test_a_cut_call_does_not_reach_the_sdk(sdk):
    async with sdk.messages.stream(**request("cut call", tools=[TOOL])) as stream:
        final = await stream.get_final_message()
    assert (final.content, final.stop_reason) == ([], "max_tokens")


async def test_a_conversation_is_continued_by_its_blocks(sdk, backend):
    backend.scripts |= {
        "all": Script(("<think>hm</think>\n\nI look.\n" + call("get_weather", {"city": "é"}),))
    }
    thinking: Any = {"type": "adaptive"}
    first = await sdk.messages.create(**request("all", tools=[TOOL], thinking=thinking))
    results: Any = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "content"}
        for block in first.content
        if block.type == "tool_use"
    ]
    messages: Any = [
        {"role": "user", "content": "all"},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": results},
    ]
    second = await sdk.messages.create(**request("", tools=[TOOL]) | {"messages": messages})
    assert second.content[0].type == "text"
    sent = backend.messages()
    assert [each["role"] for each in sent] == ["user", "assistant", "tool"]
    assert sent[1]["reasoning_content"] == "hm"
    assert sent[1]["content"].strip() == "I look."
    call_id = sent[1]["tool_calls"][0]["id"]
    assert sent[2]["tool_call_id"] == call_id
    messages[1]["content"] = [block.model_dump() for block in first.content]
    messages[1]["content"][0]["thinking"] = "No!"
    with pytest.raises(anthropic.BadRequestError, match="does not match its signature"):
        await sdk.messages.create(**request("", tools=[TOOL]) | {"messages": messages})


async def test_a_conversation_is_continued_by_its_items(client, backend):
    backend.scripts |= SCRIPTS
    first = await client.responses.create(
        model="tiny", input="content and calls", tools=[ITEM_TOOL]
    )
    items: Any = [{"role": "user", "content": "content"}]
    items += [item.model_dump(exclude_none=True) for item in first.output]
    for item in first.output:
        if item.type == "function_call":
            call_id = item.call_id
            items.append({"type": "function_call_output", "call_id": call_id, "output": "content"})
    second = await client.responses.create(model="tiny", input=items, tools=[ITEM_TOOL])
    assert second.output_text == "Hello there, friend"
    sent = backend.messages()
    assert [each["role"] for each in sent] == ["user", "assistant", "tool", "tool"]


async def test_the_tool_runner_runs_without_a_thread(sdk):
    ran = []

    @beta_async_tool
    async def get_weather(city: str) -> str:
        """The weather of a city."""
        ran.append(city)
        return "content"

    runner = sdk.beta.messages.tool_runner(**request("call", tools=[get_weather]))
    final = await runner.until_done()
    assert final.content[0].type == "text"
    assert len(ran) == 1


async def test_tokens_are_counted_by_the_backend(sdk, client, backend):
    given: Any = request("content", tools=[TOOL], system="Be brief.")
    message = await sdk.messages.create(**given)
    del given["max_tokens"]
    counted = await sdk.messages.count_tokens(**given)
    usage = message.usage
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)
    assert backend.counts[-1].prompt == backend.requests[-1].prompt
    as_items = await client.responses.input_tokens.count(model="tiny", input="content")
    assert (as_items.object, as_items.input_tokens) == ("response.input_tokens", 11)
    with pytest.raises(anthropic.BadRequestError, match="tool_choice"):
        await sdk.messages.count_tokens(**given, tool_choice={"type": "tool", "name": "other"})
    with pytest.raises(anthropic.NotFoundError):
        await sdk.messages.count_tokens(**given | {"model": "unknown"})


async def test_models_are_listed_in_anthropics_form(sdk):
    listed = [model.id async for model in sdk.models.list(limit=1)]
    assert listed == ["down", "tiny"]
    assert (await sdk.models.retrieve("tiny")).display_name == "tiny"
    with pytest.raises(anthropic.NotFoundError):
        await sdk.models.retrieve("unknown")


async def test_anthropics_sdk_gets_its_own_errors(sdk, redis_of_gateway, gateway):
    given: Any = request("content")
    with pytest.raises(anthropic.NotFoundError):
        await sdk.messages.create(**given | {"model": "unknown"})
    with pytest.raises(anthropic.AuthenticationError):
        await sdk.with_options(api_key="sk-wrong").messages.create(**given)
    with pytest.raises(anthropic.NotFoundError, match="batches"):
        await sdk.messages.batches.list()
    with pytest.raises(anthropic.BadRequestError) as refused:
        await sdk.messages.create(**given, tools=[{"name": "a", "input_schema": {"type": 3}}])
    body: Any = refused.value.body
    assert body["error"]["param"].startswith("tools[0].input_schema")
    with pytest.raises(anthropic.APIStatusError) as down:
        await sdk.messages.create(**given | {"model": "down"})
    body = down.value.body
    assert (down.value.status_code, body["error"]["type"]) == (503, "overloaded_error")
    key, _ = await make_key(redis_of_gateway.url, gateway, models=("tiny",), rpm=1)
    limited = sdk.with_options(api_key=key)
    allowed = await limited.messages.with_raw_response.create(**given)
    assert allowed.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert allowed.headers["anthropic-ratelimit-requests-reset"].endswith("Z")
    with pytest.raises(anthropic.RateLimitError) as reached:
        await limited.messages.create(**given)
    assert int(reached.value.response.headers["retry-after"]) > 0
    assert not [name for name in reached.value.response.headers if name.startswith("x-ratelimit")]


async def test_an_error_in_a_stream_is_raised_by_the_sdk(sdk, backend):
    backend.scripts["broken"] = Script(("Hello there",), error_after=2)
    with pytest.raises(anthropic.APIStatusError, match="It broke"):
        async with sdk.messages.stream(**request("broken")) as stream:
            await stream.get_final_message()


async def test_errors_of_responses_have_openais_form(client):
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve("resp_1")
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="unknown", input="hi")
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="sk-wrong").responses.create(model="tiny", input="hi")
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="tiny", input="hi", previous_response_id="resp_1")
    assert refused.value.param == "previous_response_id"


@pytest.mark.parametrize(
    ("content", "headers", "status", "kind"),
    [
        (b"{", {}, 400, "invalid_request_error"),
        (b"[]", {}, 400, "invalid_request_error"),
        (b'{"model": "tiny"}', {}, 400, "invalid_request_error"),
        (b"{}", {"x-api-key": ""}, 401, "authentication_error"),
        (b"{}", {"x-api-key": "sk-a", "authorization": "Bearer b"}, 401, "authentication_error"),
        (b"{}", {"content-encoding": "br"}, 415, "invalid_request_error"),
    ],
)
async def test_errors_of_messages_are_in_anthropics_form(gateway, content, headers, status, kind):
    sent = {"x-api-key": MASTER_KEY, "content-type": "application/json"} | headers
    for path in (MESSAGES, f"{MESSAGES}/count_tokens"):
        async with http_client(gateway, headers=sent) as client:
            answer = await client.post(path, content=content)
        assert answer.status_code == status, answer.text
        body = answer.json()
        check_error(body)
        assert body["error"]["type"] == kind
        assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("path", [RESPONSES, MESSAGES])
async def test_responses_and_messages_have_the_headers_of_grammars(http, backend, path):
    message = [{"role": "user", "content": "hi"}]
    body = {"input": message} if path == RESPONSES else {"messages": message, "max_tokens": 9}
    for stream in (False, True):
        more = {"model": "tiny", "tools": [TOOLS[path]], "stream": stream}
        answer = await http.post(path, json=body | more)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-toolgate-enforced"] == "full"
        assert answer.headers["x-toolgate-grammar"].split(";")[0] in ("known", "new")
