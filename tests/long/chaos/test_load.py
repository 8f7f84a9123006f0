"""The load of chaos and soak: its requests on each API, and the check of their responses."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.long.chaos.load import (
    LAST_EVENTS,
    body_of,
    is_complete,
    make_ask,
    send,
    stream_error,
)
from tests.support.apis.replies import PATHS
from tests.support.litellm.own_route import Gateway
from tests.support.servers.script import Script
from toolgate_verify.asking.ask import Ask
from toolgate_verify.terms import Api

URL = "http://gateway"


@pytest.fixture(autouse=True)
def scripts(gateway: Gateway) -> None:
    for at in range(100):
        gateway.backend.scripts[f"Go on, {at}."] = Script(("Hello there",))


def asks(count: int) -> list[Ask]:
    drawn = random.Random(3)
    return [make_ask(drawn, {}) for _ in range(count)]


@pytest.mark.parametrize("api", Api)
async def test_requests_of_the_load_are_accepted_on_each_api(gateway: Gateway, api: Api) -> None:
    """The backend's content is a response to those that require no call."""
    for ask in asks(40):
        if ask.choice == "required":
            continue
        response = await gateway.ask(body_of(api, ask), path=PATHS[api])
        assert response.status == 200, response.json
        data = b"".join(response.bodies)
        if ask.stream and api in LAST_EVENTS:
            assert is_complete(api, data)
            assert stream_error(data) is None
            assert not is_complete(api, data[: len(data) // 2])


def server(data: bytes, status: int = 200) -> httpx.AsyncClient:
    async def answer(request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            yield data

        return StreamingResponse(parts(), status)

    routes = [Route(path, answer, methods=["POST"]) for path in PATHS.values()]
    transport = httpx.ASGITransport(Starlette(routes=routes))
    return httpx.AsyncClient(transport=transport, base_url=URL)


async def responded(api: Api, ask: Ask, data: bytes, status: int = 200) -> Any:
    async with server(data, status) as http:
        return await send(http, URL, "key", ask, api)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", Api)
async def test_responses_are_checked(gateway: Gateway, api: Api, stream: bool) -> None:
    ask = replace(next(each for each in asks(40) if not each.tools), stream=stream)
    response = await gateway.ask(body_of(api, ask), path=PATHS[api])
    data = b"".join(response.bodies)
    assert await responded(api, ask, data) == ("ok", [])
    what, (wrong,) = await responded(api, ask, data[: len(data) // 2])
    if api == Api.CHAT and stream:
        assert what == "no end"
    else:
        assert (what, wrong.split(":")[0]) == ("invalid", PATHS[api])
    what, wrongs = await responded(api, ask, data.replace(b"Hello", b"<tool_call>"))
    assert what in ("ok", "invalid")
    assert wrongs
    error = json.dumps({"error": {"code": "limits_unavailable", "type": "x"}}).encode()
    assert await responded(api, ask, error, 503) == ("503 limits_unavailable", [])
    assert (await responded(api, ask, error, 400))[1]
