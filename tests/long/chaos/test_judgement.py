"""Chaos and soak: their requests, the check of the responses, and what they find wrong."""

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

from tests.long.chaos import growth
from tests.long.chaos.attacks import PER_MINUTE, Attacks, LimitProbe, most_within
from tests.long.chaos.growth import Sample, slope
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


def test_outcomes_that_no_gateway_may_have_are_found() -> None:
    attacks = Attacks((), "key")
    attacks.outcomes.update([("trailers", "cut"), ("hostile schemas", "400")])
    table, wrong = attacks.report()
    assert "| hostile schemas | 400 | 1 |" in table
    assert wrong == []
    attacks.outcomes.update([("trailers", "accepted"), ("hostile schemas", "500")])
    attacks.outcomes["hostile schemas", "no response to deep"] += 1
    assert attacks.report()[1] == [
        "attack by hostile schemas: 500",
        "attack by hostile schemas: no response to deep",
        "attack by trailers: accepted",
    ]


def samples(hours: float, per_hour: float) -> list[Sample]:
    """One sample a minute of a server whose memory grows, with noise, after it was filled."""
    count = round(hours * 60)
    return [
        Sample(60.0 * at, "gateway", {"memory, MB": 300 + per_hour * at / 60 + (at % 7)})
        for at in range(count)
    ]


def test_the_slope_is_growth_per_hour() -> None:
    assert slope([(0, 1.0), (1800, 2.0), (3600, 3.0)]) == pytest.approx(2.0)
    assert slope([(0, 1.0)]) == 0.0


def test_growth_is_found_and_noise_is_not() -> None:
    assert growth.report(samples(2, 0))[1] == []
    (found,) = growth.report(samples(2, 200))[1]
    assert found.startswith("gateway: memory, MB grows by")
    assert growth.report(samples(0.2, 2000))[1] == []  # caches are filled first


def test_requests_count_if_they_were_admitted_within_the_window() -> None:
    assert most_within([], 60) == 0
    assert most_within([(0, 1), (30, 31), (59, 60), (60, 61)], 60) == 3
    # It may have been admitted before or after the window.
    assert most_within([(0, 1), (59, 61)], 60) == 1


def test_a_limit_that_is_exceeded_is_found() -> None:
    probe = LimitProbe((), "key")
    probe.passed = [(at, at + 0.1) for at in range(PER_MINUTE)]
    probe.passed += [(at + 60, at + 60.1) for at in range(PER_MINUTE)]
    assert probe.report()[1] == []
    probe.passed = [(at / 2, at / 2 + 0.1) for at in range(2 * PER_MINUTE)]
    (wrong,) = probe.report()[1]
    assert wrong == "120 requests passed within a minute"


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
