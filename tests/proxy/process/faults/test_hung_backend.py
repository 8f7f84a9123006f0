"""A backend that accepts requests and responds to none: health checks find it, and from then on
requests for its models end at once, or take their fallbacks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import yaml

from tests.support.servers import hostile_backend
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.hostile_backend import HostileBackend, generated, sent
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script
from toolgate_proxy.server.launcher import Route, make_config

PROMPT = 5.0
"""Seconds, far less than any time-out of a request, and enough for a busy machine."""
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def hung() -> Iterator[HostileBackend]:
    with hostile_backend.running(HostileBackend({"hi": sent(generated())})) as backend:
        yield backend


@pytest.fixture(scope="module")
def url(
    hung: HostileBackend,
    backend_of_session: FakeBackend,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    routes = [Route(name, "tiny", hung.url) for name in ("single", "insured", "pair", "pair")]
    routes.append(Route("spare", "tiny", backend_of_session.url))
    config = make_config(routes)
    config["router_settings"]["model_group_alias"] = {"alias": "single"}
    config["router_settings"]["fallbacks"] = [{"insured": ["spare"]}]
    folder = tmp_path_factory.mktemp("hung")
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    with serving(["--config", str(path)], hung.url, folder / "log") as gateway:
        yield gateway.url


@pytest.fixture
async def http(
    url: str, hung: HostileBackend, spare_backend: FakeBackend
) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway that knows that the backend hangs."""
    spare_backend.scripts["hi"] = Script(("Hello",))
    async with http_client(url, headers=bearer(MASTER_KEY)) as client:
        await until(client, up=True)
        hung.hangs = True
        try:
            await until(client, up=False)
            yield client
        finally:
            hung.hangs = False


async def until(http: httpx.AsyncClient, *, up: bool) -> None:
    async with asyncio.timeout(30):
        while (await http.get("/toolgate/ready/single")).is_success != up:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("model", ["single", "alias", "pair"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": MESSAGES}),
        (CHAT, {"messages": MESSAGES, "stream": True}),
        ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}),
        ("/v1/messages/count_tokens", {"messages": MESSAGES}),
        ("/v1/responses", {"input": "hi"}),
    ],
)
async def test_requests_for_a_hung_backend_are_refused_at_once(
    http: httpx.AsyncClient, model: str, path: str, body: dict[str, Any]
) -> None:
    began = time.monotonic()
    response = await http.post(path, json={**body, "model": model}, timeout=PROMPT)
    assert response.status_code == 503, response.text
    assert int(response.headers["retry-after"]) > 0
    assert "No backend of this model responds" in response.json()["error"]["message"]
    assert time.monotonic() - began < PROMPT


async def test_a_fallback_replaces_a_model_whose_backend_hangs(http: httpx.AsyncClient) -> None:
    body = {"model": "insured", "messages": MESSAGES}
    response = await http.post(CHAT, json=body, timeout=PROMPT)
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["message"]["content"] == "Hello"


async def test_requests_are_served_again_once_the_backend_responds(
    http: httpx.AsyncClient, hung: HostileBackend
) -> None:
    hung.hangs = False
    await until(http, up=True)
    response = await http.post(CHAT, json={"model": "single", "messages": MESSAGES})
    assert response.status_code == 200, response.text
