"""Clients that leave: whatever a request waits for at that moment, its place is free again and only
what a backend has read and generated counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.litellm.own_route import Gateway, chat
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy import background
from toolgate_proxy.keys.key import Key, new_key
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.server import request_scope
from toolgate_proxy.server.request_scope import RequestScope
from toolgate_proxy.settings import Settings

LIMIT, MAX_TOKENS = 100_000, 30_000
PROMPT, GENERATED = 11, 5
"""Tokens of the scripted response."""


class Interrupted:
    """Awaits `work`, and cancels its task when it suspends for the `at`-th time, after `delay`
    iterations of the event loop, in which what it waits for goes on."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int, delay: int) -> None:
        self._work = work
        self._at = at
        self._delay = delay
        self.suspended = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        waited = self._work.__await__()
        sent: Any = None
        error: BaseException | None = None
        while True:
            try:
                future = waited.send(sent) if error is None else waited.throw(error)
            except StopIteration as ended:
                return ended.value
            self.suspended += 1
            if self.suspended == self._at:
                task = asyncio.current_task()
                assert task is not None
                _cancel(task, self._delay)
            sent = error = None
            try:
                sent = yield future
            except BaseException as raised:  # noqa: BLE001  handed on to the work
                error = raised


def _cancel(task: asyncio.Task[Any], delay: int) -> None:
    if delay:
        asyncio.get_running_loop().call_soon(_cancel, task, delay - 1)
    else:
        task.cancel()


@pytest.fixture(params=["memory", "redis"])
async def limiter(
    request: pytest.FixtureRequest, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Limiter]:
    """The limiter of the gateway, whose requests are settled as in a process."""
    redis: RedisServer | None = None
    if request.param == "redis":
        redis = request.getfixturevalue("redis_at_hand")
    url = SecretStr(redis.url) if redis else None
    limiter = Limiter(Settings(redis_url=url))
    await limiter.started()
    gateway.here.limiter = limiter
    monkeypatch.setattr(request_scope, "gateway", lambda: gateway.here)
    gateway._app = RequestScope(gateway._app)  # type: ignore[assignment]
    yield limiter
    await limiter.aclose()


async def counted(limiter: Limiter, key: Key) -> tuple[int, int, int]:
    """Tokens of the minute, tokens of the day and requests in flight that count for a key."""
    await until(lambda: not (limiter.reservations._entries or background._tasks))
    probe = await limiter.admit(key, "probe", Tokens(), Tokens)
    await limiter.reservations.close(probe.reservation)
    left = (probe.headers[f"x-ratelimit-remaining-{name}"] for name in
            ("tokens", "tokens-day", "parallel-requests"))  # fmt: skip
    minute, day, parallel = map(int, left)
    return LIMIT - minute, LIMIT - day, 8 - parallel - 1


@pytest.mark.parametrize("delay", [0, 1, 2, 4, 8, 16])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_is_cancelled_at_any_await_counts_only_what_was_generated(
    gateway: Gateway, limiter: Limiter, stream: bool, delay: int
) -> None:
    seen: set[int] = set()
    for at in range(1, 1000):
        sent = new_key()
        key = key_of(sent, tpm=LIMIT, tokens_per_day=LIMIT, max_parallel_requests=8)
        gateway.add_key(sent, key)
        gateway.backend.requests.clear()
        body = chat(stream=stream, max_tokens=MAX_TOKENS)
        work = Interrupted(gateway.ask(body, key=sent), at, delay)
        task = asyncio.create_task(_awaited(work))
        (ended,) = (await asyncio.wait({task}, timeout=20))[0]
        minute, day, in_flight = await counted(limiter, key)
        assert in_flight == 0, f"suspension {at} keeps the place"
        assert minute == day
        assert day == 0 or PROMPT <= day <= PROMPT + GENERATED, f"suspension {at}"
        if not gateway.backend.requests:
            assert day == 0, f"suspension {at}: no backend has read the prompt"
        seen.add(day)
        if not ended.cancelled():
            break
    assert day == PROMPT + GENERATED, "what was sent whole counts"
    assert delay or work.suspended < at
    assert 0 in seen


async def _awaited(work: Interrupted) -> Any:
    return await work


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_is_charged_for_what_was_generated_until_then(
    gateway: Gateway, limiter: Limiter, stream: bool
) -> None:
    gateway.backend.scripts["slow"] = Script(("word " * 100,), pause=0.05)
    sent = new_key()
    key = key_of(sent, tpm=LIMIT, tokens_per_day=LIMIT, max_parallel_requests=8)
    gateway.add_key(sent, key)
    body = chat("slow", stream=stream, max_tokens=MAX_TOKENS)
    await gateway.ask(body, key=sent, leave_after=1.0)
    minute, day, in_flight = await counted(limiter, key)
    assert in_flight == 0
    assert minute == day
    assert PROMPT < day < PROMPT + 100
