"""Connections that break before a response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from tests.support.litellm.own_route import Gateway, chat
from tests.support.litellm.router import row, use
from tests.support.servers.fake_backend import KEY
from toolgate_proxy.server.response_headers import own_headers

NOWHERE = "http://127.0.0.1:9"
GENERATE = b"POST /v1/toolgate/generate"


@dataclass
class Relay:
    """A connection to the backend that can break when a request is sent on it."""

    url: str = ""
    breaks: int = 0
    """Number of requests on whose arrival the connection is closed."""


@asynccontextmanager
async def relay_to(url: str) -> AsyncIterator[Relay]:
    target, relay = httpx.URL(url), Relay()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_backend, to_backend = await asyncio.open_connection(target.host, target.port)

        async def answers() -> None:
            while data := await from_backend.read(65536):
                writer.write(data)
            writer.close()

        answering = asyncio.create_task(answers())
        while data := await reader.read(65536):
            if relay.breaks and data.startswith(GENERATE):
                relay.breaks -= 1
                break
            to_backend.write(data)
        to_backend.close()
        writer.close()
        await answering

    async with await asyncio.start_server(connect, "127.0.0.1", 0) as server:
        relay.url = "http://{}:{}".format(*server.sockets[0].getsockname())
        yield relay


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_on_a_closed_connection_is_sent_again(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """A backend closes idle connections. The only backend of the model is asked once more."""
    async with relay_to(gateway.backend.url) as relay:
        use(monkeypatch, row("a", group="tiny", api_base=relay.url, api_key=KEY))
        assert (await gateway.ask(chat(stream=stream))).status == 200
        relay.breaks = 1
        response = await gateway.ask(chat(stream=stream))
        assert (response.status, response.text) == (200, "Hello there")
        relay.breaks = 2
        response = await gateway.ask(chat(stream=stream))
        assert (response.status, response.json["error"]["code"]) == (503, "backend_unavailable")


async def test_a_refused_connection_takes_the_backend_out_of_the_rotation(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with relay_to(gateway.backend.url) as relay:
        url = relay.url
    use(monkeypatch, row("a", group="tiny", api_base=url, api_key=KEY))
    assert (await gateway.ask(chat())).status == 503
    (state,) = [
        each.state for each in gateway.here.deployments._deployments.values() if each.url == url
    ]
    assert not state.up
    assert state.error == "connection failed: Connection refused"


@pytest.mark.parametrize("others", [True, False])
async def test_a_backend_with_another_key_is_replaced_by_others(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    async with relay_to(gateway.backend.url) as relay:
        refusing = row("a", group="tiny", api_base=relay.url, api_key="another-key", weight=1)
        accepting = row("b", group="tiny", api_base=gateway.backend.url, api_key=KEY, weight=0)
        use(monkeypatch, refusing, *([accepting] if others else []))
        response = await gateway.ask(chat())
        assert response.status == (200 if others else 503)
        assert others or response.json["error"]["code"] == "backend_unavailable"


@pytest.mark.parametrize("stream", [True, False])
async def test_the_header_has_the_deployment_that_answers(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    gone = row("a", group="tiny", api_base=NOWHERE, api_key=KEY, weight=1)
    here = row("b", group="tiny", api_base=gateway.backend.url, api_key=KEY, weight=0)
    use(monkeypatch, gone, here)
    response = await gateway.ask(chat(stream=stream))
    assert response.status == 200
    assert own_headers(response.context)["x-litellm-model-id"] == "b"
