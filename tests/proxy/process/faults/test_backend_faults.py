"""A gateway whose backend fails, and clients that disconnect."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from tests.support.apis.sdk_requests import WEATHER, asked
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script, call


@pytest.mark.parametrize("stream", [True, False])
async def test_backend_that_is_down_returns_503(http: httpx.AsyncClient, stream: bool) -> None:
    for _ in range(2):  # the second time too: the deployment is not locked out
        response = await http.post(
            "/v1/chat/completions", json=asked("content", stream=stream) | {"model": "down"}
        )
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        assert response.json()["error"]["code"] == "backend_unavailable"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("status", "error"),
    [(503, {"message": "Full.", "code": "backend_unavailable"}), (429, {"message": "Full."})],
)
async def test_overloaded_backend_returns_503_with_retry_after(
    http: httpx.AsyncClient,
    backend: FakeBackend,
    stream: bool,
    status: int,
    error: dict[str, Any],
) -> None:
    backend.scripts["full"] = Script(("",), error_status=status, error=error)
    response = await http.post("/v1/chat/completions", json=asked("full", stream=stream))
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0
    assert response.json()["error"]["code"] == "backend_unavailable"


@pytest.mark.parametrize(
    ("fault", "code"),
    [({"error_after": 3}, "enforcement_failed"), ({"break_after": 3}, "backend_failed")],
)
async def test_backend_fault_mid_response_returns_an_error(
    client: openai.AsyncOpenAI, backend: FakeBackend, fault: dict[str, Any], code: str
) -> None:
    backend.scripts["bad"] = Script(("Hello there, my friend",), pause=0.01, **fault)
    texts: list[str] = []

    async def read() -> None:
        async for chunk in await client.chat.completions.create(**asked("bad"), stream=True):
            assert chunk.choices[0].finish_reason is None
            texts.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError) as failure:
        await read()
    assert "".join(texts) == "Hello the"
    assert failure.value.code == code
    with pytest.raises(openai.InternalServerError) as refused:
        await client.chat.completions.create(**asked("bad"))
    assert refused.value.status_code in (500, 502)


async def test_incomplete_call_never_has_a_finish_reason(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts["bad"] = Script((call("get_weather", '{"city": "Ro'),))

    async def read() -> list[Any]:
        stream = await client.chat.completions.create(**asked("bad", tools=[WEATHER]), stream=True)
        return [chunk async for chunk in stream]

    with pytest.raises(openai.APIError) as failure:
        await read()
    assert failure.value.code == "enforcement_failed"
    with pytest.raises(openai.InternalServerError) as refused:
        await client.chat.completions.create(**asked("bad", tools=[WEATHER]))
    assert refused.value.code == "enforcement_failed"


@pytest.mark.parametrize("hang_after", [0, 2])
@pytest.mark.parametrize("stream", [True, False])
async def test_disconnect_ends_the_backend_request(
    http: httpx.AsyncClient, backend: FakeBackend, stream: bool, hang_after: int
) -> None:
    backend.scripts["hang"] = Script(("Hello there",), hang_after=hang_after)
    with pytest.raises(httpx.ReadTimeout):
        await http.post("/v1/chat/completions", json=asked("hang", stream=stream), timeout=0.5)
    assert len(backend.requests) == 1
    assert await backend.idle_within(1.0)
    assert backend.left
