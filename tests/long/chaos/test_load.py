"""The load of chaos and soak: its requests on each API, and the check of their responses."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.long.chaos.forms import FORMS, is_complete, stream_error
from tests.long.chaos.load import make_body, send
from tests.support.litellm.own_route import Gateway
from tests.support.servers.script import Script

URL = "http://gateway"


@pytest.fixture(autouse=True)
def scripts(gateway: Gateway) -> None:
    for at in range(100):
        gateway.backend.scripts[f"Go on, {at}."] = Script(("Hello there",))


def bodies(count: int) -> list[dict[str, Any]]:
    drawn = random.Random(3)
    return [make_body(drawn, {}) for _ in range(count)]


@pytest.mark.parametrize("api", FORMS)
async def test_requests_of_the_load_are_accepted_on_each_api(gateway: Gateway, api: str) -> None:
    """The backend's content is a response to those that require no call."""
    form = FORMS[api]
    for body in bodies(40):
        if body.get("tool_choice") == "required":
            continue
        response = await gateway.ask(form.body(body), path=form.api.path)
        assert response.status == 200, response.json
        data = b"".join(response.bodies)
        if body["stream"]:
            assert is_complete(form, data)
            assert stream_error(data) is None
            assert not is_complete(form, data[: len(data) // 2])


def server(data: bytes, status: int = 200) -> httpx.AsyncClient:
    async def answer(request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            yield data

        return StreamingResponse(parts(), status)

    routes = [Route(form.api.path, answer, methods=["POST"]) for form in FORMS.values()]
    transport = httpx.ASGITransport(Starlette(routes=routes))
    return httpx.AsyncClient(transport=transport, base_url=URL)


async def responded(api: str, body: dict[str, Any], data: bytes, status: int = 200) -> Any:
    async with server(data, status) as http:
        return await send(http, URL, "key", body, FORMS[api])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", FORMS)
async def test_responses_are_checked(gateway: Gateway, api: str, stream: bool) -> None:
    form = FORMS[api]
    body = next(each for each in bodies(40) if "tools" not in each) | {"stream": stream}
    response = await gateway.ask(form.body(body), path=form.api.path)
    data = b"".join(response.bodies)
    assert await responded(api, body, data) == ("ok", [])
    what, (wrong,) = await responded(api, body, data[: len(data) // 2])
    assert (what, wrong.split(":")[0]) == ("invalid", form.api.path)
    what, wrongs = await responded(api, body, data.replace(b"Hello", b"<tool_call>"))
    assert what in ("ok", "invalid")
    assert wrongs
    error = json.dumps({"error": {"code": "limits_unavailable", "type": "x"}}).encode()
    assert await responded(api, body, error, 503) == ("503 limits_unavailable", [])
    assert (await responded(api, body, error, 400))[1]
