"""The WebSocket mode of the Responses API, over real connections."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import openai
import pytest
import websockets
from openai.types.responses import Response
from websockets.asyncio.client import ClientConnection

from tests.support.apis.responses_api import check_event, check_response
from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.server.responses_socket import MAX_PENDING

TOOL: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
Json = dict[str, Any]
pytestmark = OWN_ROUTE_ONLY


SAYS = {text: Script((f"Hello {text}",)) for text in ("one", "two", "three", "whole again")}


@pytest.fixture(autouse=True)
def scripts(backend: FakeBackend) -> None:
    backend.scripts |= SAYS | {
        "look": Script((call("look", {}),)),
        "long": Script(("word " * 500,), pause=0.05),
    }


@asynccontextmanager
async def connected(gateway: str, key: str = MASTER_KEY) -> AsyncIterator[ClientConnection]:
    url = gateway.replace("http", "ws") + "/v1/responses"
    headers = {"authorization": f"Bearer {key}"}
    async with websockets.connect(url, additional_headers=headers) as socket:
        yield socket


async def asked(socket: ClientConnection, **fields: Any) -> Json:
    """The last event of the response; all events are checked."""
    await socket.send(json.dumps({"type": "response.create", "model": "tiny", **fields}))
    return await ended(socket)


async def ended(socket: ClientConnection) -> Json:
    number = 0
    while True:
        event: Json = json.loads(await socket.recv())
        if event["type"] == "error":
            assert isinstance(event["status"], int)
            return event
        assert event["sequence_number"] == number
        number += 1
        check_event(event)
        if event["type"] in ("response.completed", "response.incomplete", "response.failed"):
            check_response(event["response"])
            return event


def contents(backend: FakeBackend) -> list[str]:
    """The texts of the prompt's messages."""
    found = [message["content"] for message in backend.messages()]
    return [each if isinstance(each, str) else each[0]["text"] for each in found]


async def test_responses_follow_each_other_on_one_connection(gateway: str) -> None:
    async with connected(gateway) as socket:
        first = await asked(socket, input="look", tools=[TOOL])
        second = await asked(socket, input="one")
    assert first["response"]["output"][0]["name"] == "look"
    assert second["response"]["output"][0]["content"][0]["text"] == "Hello one"
    assert first["response"]["id"] != second["response"]["id"]


async def test_a_response_that_is_not_stored_is_continued_on_its_connection_only(
    gateway: str, backend: FakeBackend
) -> None:
    async with connected(gateway) as socket:
        first = (await asked(socket, input="one", store=False))["response"]
        following = {"store": False, "input": "two", "previous_response_id": first["id"]}
        second = (await asked(socket, **following))["response"]
        assert contents(backend) == ["one", text_of(first), "two"]
        assert second["previous_response_id"] == first["id"]
        assert second["store"] is False
        third = await asked(socket, input="three", previous_response_id=second["id"], store=False)
        assert contents(backend) == ["one", text_of(first), "two", text_of(second), "three"]
        # Only the latest response stays.
        assert code(await asked(socket, **following)) == "previous_response_not_found"
    async with connected(gateway) as socket:
        last = third["response"]["id"]
        failed = await asked(socket, input="four", previous_response_id=last, store=False)
        assert (failed["status"], code(failed)) == (400, "previous_response_not_found")
        assert failed["error"]["param"] == "previous_response_id"
        assert (await asked(socket, input="whole again"))["type"] == "response.completed"


async def test_stored_responses_are_continued_on_other_connections_and_by_http(
    gateway: str, backend: FakeBackend, http: httpx.AsyncClient
) -> None:
    async with connected(gateway) as socket:
        first = (await asked(socket, input="one"))["response"]
    async with connected(gateway) as socket:
        second = await asked(socket, input="two", previous_response_id=first["id"], store=False)
        following = {"input": "three", "previous_response_id": second["response"]["id"]}
        await asked(socket, **following)
    second_text = text_of(second["response"])
    assert contents(backend) == ["one", text_of(first), "two", second_text, "three"]
    stored = await http.get(f"/v1/responses/{first['id']}")
    assert stored.json()["output"] == first["output"]


async def test_a_failed_continuation_evicts_the_response(gateway: str) -> None:
    async with connected(gateway) as socket:
        first = (await asked(socket, input="one", store=False))["response"]
        following = {"previous_response_id": first["id"], "store": False}
        unknown = {"type": "function_call_output", "call_id": "call_0", "output": "none"}
        failed = await asked(socket, input=[unknown], **following)
        assert failed["status"] == 400
        again = await asked(socket, input="two", **following)
        assert code(again) == "previous_response_not_found"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("no JSON", None),
        ("[]", "type"),
        ('{"type": "response.cancel"}', "type"),
        (
            '{"type": "response.create", "model": "tiny", "input": "x", "background": true}',
            "background",
        ),
        ('{"type": "response.create", "model": "tiny", "input": 5}', "input"),
        (f'{{"type": "response.create", "input": {"[" * 1_010}{"]" * 1_010}}}', None),
        ('{"type": "response.create", "model": "unknown", "input": "x"}', "model"),
    ],
)
async def test_an_invalid_message_is_an_error_event_and_the_connection_stays(
    gateway: str, message: str, param: str | None
) -> None:
    async with connected(gateway) as socket:
        await socket.send(message)
        failed = await ended(socket)
        assert failed["status"] in (400, 404)
        assert failed["error"]["param"] == param
        assert (await asked(socket, input="one"))["type"] == "response.completed"


async def test_each_message_counts_against_the_limits_of_its_key(
    gateway: str, redis_of_gateway: RedisServer
) -> None:
    sent, _ = await make_key(redis_of_gateway.url, gateway, rpm=2)
    async with connected(gateway, sent) as socket:
        kinds = [await asked(socket, input="one") for _ in range(3)]
    assert [each["type"] for each in kinds] == ["response.completed"] * 2 + ["error"]
    assert kinds[-1]["status"] == 429


async def test_openais_sdk_connects(client: openai.AsyncOpenAI) -> None:
    async with client.responses.connect() as connection:

        async def create(**fields: Any) -> Response:
            await connection.response.create(model="tiny", tools=[TOOL], stream=True, **fields)
            async for event in connection:
                if event.type == "response.completed":
                    return event.response
            raise AssertionError("The connection ended.")

        first = await create(input="look")
        item = first.output[0]
        assert item.type == "function_call"
        result = {"type": "function_call_output", "call_id": item.call_id, "output": "one"}
        second = await create(input=[result], previous_response_id=first.id)
    assert second.output_text == "Hello one"


async def test_a_wrong_key_is_refused_at_the_handshake(gateway: str) -> None:
    with pytest.raises(websockets.exceptions.InvalidStatus) as failure:
        async with connected(gateway, "sk-wrong"):
            pass
    assert failure.value.response.status_code == 401
    assert json.loads(failure.value.response.body or b"")["error"]["code"] == "invalid_api_key"


async def test_a_disconnect_cancels_the_request(gateway: str, backend: FakeBackend) -> None:
    async with connected(gateway) as socket:
        await socket.send(json.dumps({"type": "response.create", "model": "tiny", "input": "long"}))
        await socket.recv()
    assert await backend.idle_within(10)


async def test_too_many_waiting_messages_close_the_connection(
    gateway: str, backend: FakeBackend
) -> None:
    message = json.dumps({"type": "response.create", "model": "tiny", "input": "long"})
    async with connected(gateway) as socket:
        for _ in range(MAX_PENDING + 2):
            await socket.send(message)
        events = [json.loads(event) async for event in closing(socket)]
        assert socket.close_code == 1008
    assert (events[-1]["type"], events[-1]["status"]) == ("error", 429)
    assert await backend.idle_within(10)


async def closing(socket: ClientConnection) -> AsyncIterator[str | bytes]:
    """All messages until the gateway closes the connection."""
    with suppress(websockets.exceptions.ConnectionClosed):
        while True:
            yield await socket.recv()


def text_of(response: Json) -> str:
    return str(response["output"][-1]["content"][0]["text"])


def code(event: Json) -> str:
    return str(event["error"]["code"])
