"""One gateway in front of two backends of one model: if one is lost, the other one serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import openai
import pytest
from typer.testing import CliRunner, Result

from tests.support.apis.sdk_requests import asked
from tests.support.servers.backends import Backends, backends_of
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client, openai_client
from tests.support.servers.script import Script
from tests.support.waiting import until
from toolgate_proxy.cli.main import app
from toolgate_proxy.settings import settings

CHAT = "/v1/chat/completions"
STREAMS = 32
TEXT = "Hello there, friend " * 10


@pytest.fixture(scope="module")
def pair() -> Iterator[Backends]:
    missing = {"message": "No.", "code": "model_not_found"}
    scripts = {
        "hi": Script((TEXT,)),
        "slow": Script((TEXT,), pause=0.05),
        "waits": Script((TEXT,), hang_after=0),
        "missing": Script(("",), error_status=404, error=missing),
    }
    with backends_of(2, scripts) as made:
        yield made


@pytest.fixture(scope="module")
def url(pair: Backends, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    arguments = [f"--model=tiny@{backend.url}" for backend in pair.all]
    log = tmp_path_factory.mktemp("many") / "log"
    with serving(arguments, pair.all[0].url, log) as gateway:
        yield gateway.url


@pytest.fixture
async def http(url: str, pair: Backends) -> AsyncIterator[httpx.AsyncClient]:
    headers = bearer(MASTER_KEY)
    async with http_client(url, headers=headers, timeout=60) as client:
        await until_up(client, True, True)
        yield client


async def states(http: httpx.AsyncClient) -> list[bool]:
    told = (await http.get("/toolgate/status")).json()
    (model,) = told["models"]
    return [backend["up"] for backend in model["backends"]]


async def until_up(http: httpx.AsyncClient, *wanted: bool) -> None:
    async with asyncio.timeout(15):
        while await states(http) != list(wanted):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def statuses(http: httpx.AsyncClient, number: int, **params: Any) -> set[int]:
    said = await asyncio.gather(*(http.post(CHAT, json=asked(**params)) for _ in range(number)))
    return {response.status_code for response in said}


async def streamed(client: openai.AsyncOpenAI, script: str) -> tuple[str, str | None]:
    """The text, and how the stream ended: its finish reason, or the error's code."""
    text, ended = "", None
    try:
        stream = await client.chat.completions.create(**asked(script), stream=True)
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                ended = choice.finish_reason or ended
    except openai.APIError as error:
        return text, error.code
    return text, ended


async def test_requests_are_spread_over_both_backends(
    http: httpx.AsyncClient, pair: Backends
) -> None:
    with pair.counted() as used:
        assert await statuses(http, 40) == {200}
    assert min(used) > 0
    assert sum(used) == 40


async def test_backend_killed_under_load_is_replaced_and_comes_back(
    http: httpx.AsyncClient, url: str, pair: Backends
) -> None:
    """Streams at the other go on to their end, those at this one end with an error, what had not
    begun moves, nobody hangs; and the backend is used again when it is back."""
    async with openai_client(url, MASTER_KEY, timeout=60) as client:
        began = pair.counts
        streams = [asyncio.create_task(streamed(client, "slow")) for _ in range(STREAMS)]
        await until(lambda: sum(pair.counts) - sum(began) == STREAMS)
        await asyncio.sleep(0.5)
        at_first = pair.counts[0] - began[0]
        pair.kill(0)
        later = [asyncio.create_task(streamed(client, "hi")) for _ in range(STREAMS)]
        async with asyncio.timeout(60):
            ended, moved = await asyncio.gather(*streams), await asyncio.gather(*later)
    assert set(moved) == {(TEXT, "stop")}
    whole = [each for each in ended if each == (TEXT, "stop")]
    broken = [each for each in ended if each[1] == "backend_failed"]
    assert len(whole) + len(broken) == STREAMS
    assert 0 < len(broken) <= at_first
    assert len(whole) >= STREAMS - at_first
    assert all(TEXT.startswith(text) and text for text, _ in broken)
    await until_up(http, False, True)
    before = pair.counts
    assert await statuses(http, 20) == {200}
    assert pair.counts[0] == before[0]
    pair.start(0)
    await until_up(http, True, True)
    assert await statuses(http, 40) == {200}
    assert pair.counts[0] > before[0]


@pytest.mark.parametrize("stream", [False, True])
async def test_request_without_output_fails_over(
    http: httpx.AsyncClient, pair: Backends, stream: bool
) -> None:
    """The backend took it and dies before the first token: the client never learns of it."""
    for backend in pair.all:
        backend.scripts["turn"] = backend.scripts["waits"]
    began = pair.counts
    asking = asyncio.create_task(http.post(CHAT, json=asked("turn", stream=stream)))
    await until(lambda: sum(pair.counts) > sum(began))
    taken = 0 if pair.counts[0] > began[0] else 1
    pair.all[1 - taken].scripts["turn"] = pair.all[0].scripts["hi"]
    await asyncio.sleep(0.2)
    pair.kill(taken)
    response = await asking
    pair.start(taken)
    assert response.status_code == 200, response.text
    assert "Hello" in response.text
    assert pair.counts[1 - taken] == began[1 - taken] + 1


async def test_no_backend_left_returns_503(http: httpx.AsyncClient, pair: Backends) -> None:
    pair.kill(0)
    pair.kill(1)
    await until_up(http, False, False)
    response = await http.post(CHAT, json=asked())
    assert (response.status_code, response.json()["error"]["code"]) == (503, "backend_unavailable")
    assert int(response.headers["retry-after"]) > 0
    pair.start(0)
    pair.start(1)
    await until_up(http, True, True)
    assert await statuses(http, 4) == {200}


async def test_404_of_one_request_leaves_the_backend_up(
    http: httpx.AsyncClient, pair: Backends
) -> None:
    for _ in range(6):
        assert (await http.post(CHAT, json=asked("missing"))).status_code in (400, 404)
        assert await statuses(http, 2) == {200}
    assert await states(http) == [True, True]


async def test_status_lists_backends_for_the_master_key_only(
    http: httpx.AsyncClient, url: str, pair: Backends
) -> None:
    told = (await http.get("/toolgate/status")).json()
    (model,) = told["models"]
    assert model["model"] == "tiny"
    assert [backend["url"] for backend in model["backends"]] == [b.url for b in pair.all]
    assert told["limits"] == {"counted": "process", "in_flight": 0}
    assert told["keys"] == 0
    async with http_client(url) as stranger:
        assert (await stranger.get("/toolgate/status")).status_code == 401


def test_status_command_shows_the_backends(
    url: str, pair: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def toolgate(key: str) -> Result:
        monkeypatch.setenv("TOOLGATE_MASTER_KEY", key)
        settings.cache_clear()
        return CliRunner().invoke(app, ["status", "--url", url])

    shown, refused = toolgate(MASTER_KEY), toolgate("sk-wrong")
    assert shown.exit_code == 0, shown.output
    for backend in pair.all:
        assert backend.url.removeprefix("http://") in shown.output
    assert (refused.exit_code, refused.stdout) == (2, "")


async def test_a_count_of_tokens_moves_to_the_other_backend(
    http: httpx.AsyncClient, pair: Backends
) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    pair.kill(0)
    try:
        answers = [await http.post("/v1/messages/count_tokens", json=body) for _ in range(8)]
        assert {answer.status_code for answer in answers} == {200}
        assert len(pair.all[1].counts) == 8
    finally:
        pair.start(0)
