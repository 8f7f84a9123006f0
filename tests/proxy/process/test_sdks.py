"""Responses and Messages of a running gateway, through the SDKs of OpenAI and Anthropic."""

import anthropic
import pytest

from tests.proxy.process.kit import MESSAGES, RESPONSES
from tests.support.apis.messages_api import check_error
from tests.support.apis.sdk_requests import WEATHER
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import http_client
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key

FUNCTION = WEATHER["function"]
TOOLS = {
    RESPONSES: {"type": "function", "strict": False, **FUNCTION},
    MESSAGES: {"name": FUNCTION["name"], "input_schema": FUNCTION["parameters"]},
}
TOOL = TOOLS[MESSAGES]


@pytest.fixture
async def sdk(gateway, backend):
    backend.scripts["content"] = Script(("Hello there, friend",))
    async with anthropic.AsyncAnthropic(
        base_url=gateway, api_key=MASTER_KEY, max_retries=0
    ) as client:
        yield client


def request(script, **params):
    return {
        "model": "tiny",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": script}],
        **params,
    }


async def test_tokens_are_counted_by_the_backend(sdk, client, backend):
    given = request("content", tools=[TOOL], system="Be brief.")
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
    assert listed == ["tiny", "down"]  # as in the configuration, in one page
    assert (await sdk.models.retrieve("tiny")).display_name == "tiny"
    with pytest.raises(anthropic.NotFoundError):
        await sdk.models.retrieve("unknown")


async def test_anthropics_sdk_gets_its_own_errors(sdk, redis_of_gateway, gateway):
    given = request("content")
    with pytest.raises(anthropic.NotFoundError):
        await sdk.messages.create(**given | {"model": "unknown"})
    with pytest.raises(anthropic.AuthenticationError):
        await sdk.with_options(api_key="sk-wrong").messages.create(**given)
    with pytest.raises(anthropic.NotFoundError, match="batches"):
        await sdk.messages.batches.list()
    with pytest.raises(anthropic.BadRequestError) as refused:
        await sdk.messages.create(**given, tools=[{"name": "a", "input_schema": {"type": 3}}])
    body = refused.value.body
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
