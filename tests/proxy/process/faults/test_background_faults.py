"""Responses in the background of two gateways, while their Redis hangs, loses data, stops and
restarts, and after one of them was killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from tests.support.servers.gateway_process import MASTER_KEY, Fleet, impatient, two_gateways
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script, Scripts
from tests.support.servers.virtual_keys import make_key
from tests.support.waiting import until

RESPONSES = "/v1/responses"
ACTIVE = ("queued", "in_progress")
SLACK = 8.0
"""Seconds that a request may take on a busy machine while Redis hangs."""
UNAVAILABLE, UNKNOWN = "responses_unavailable", "response_not_found"
EXPECTED = {"200": 200, UNAVAILABLE: 503, UNKNOWN: 404}
ENDS: dict[str, tuple[list[str], tuple[str | None, ...]]] = {
    "completed": (["Hello there"], (None,)),
    "failed": ([], ("gateway_stopped", UNAVAILABLE)),
}
"""By status of a response: its texts, and the codes of its error."""


class _Paused(Scripts):
    """Responses take a while, so that some are in progress at each fault."""

    def __missing__(self, name: str) -> Script:
        return replace(super().__missing__(name), pause=0.1)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with two_gateways(tmp_path_factory.mktemp("background"), impatient) as made:
        made.backend.scripts = _Paused()
        yield made


@dataclass
class Seen:
    """What the clients of the load saw."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """By operation: `200`, or the code of the error."""
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Client:
    """Uses two gateways, and another key than its own."""

    one: httpx.AsyncClient
    other: httpx.AsyncClient
    stranger: str
    seen: Seen

    async def send(self, what: str, http: httpx.AsyncClient, path: str, **more: Any) -> Any:
        """Return the body; None for an error."""
        answer = await http.request("POST" if "json" in more else "GET", path, **more)
        self.seen.slowest = max(self.seen.slowest, answer.elapsed.total_seconds())
        body = answer.json()
        code = "200" if answer.is_success else body["error"]["code"]
        self.seen.outcomes[f"{what}: {code}"] += 1
        if answer.status_code != EXPECTED.get(code):
            self.seen.wrong.append(f"{what}: {answer.status_code} {answer.text}")
        return body if answer.is_success else None

    async def poll(self, name: str) -> None:
        """Create a response, and poll it at the other gateway until it has ended."""
        sent = {"model": "tiny", "input": f"background {name}", "background": True}
        shown = await self.send("queue", self.one, RESPONSES, json=sent)
        if shown is None:
            return
        path = f"{RESPONSES}/{shown['id']}"
        await self.send("foreign", self.one, path, headers=bearer(self.stranger))
        while shown is not None and shown["status"] in ACTIVE:
            await asyncio.sleep(0.02)
            shown = await self.send("poll", self.other, path)
        if shown is None:
            return
        self.seen.outcomes[f"ended: {shown['status']}"] += 1
        texts = [part["text"] for item in shown["output"] for part in item["content"]]
        code = (shown["error"] or {}).get("code")
        wanted, codes = ENDS.get(shown["status"], ([], ()))
        if texts != wanted or code not in codes:
            self.seen.wrong.append(f"background {name}: {shown}")


async def test_outages_of_redis_cause_no_wrong_answer(fleet: Fleet) -> None:
    owner, _ = await make_key(fleet.redis.url, *fleet.urls)
    stranger, _ = await make_key(fleet.redis.url, *fleet.urls)
    seen, done = Seen(), False

    async def load(number: int) -> None:
        async with AsyncExitStack() as stack:
            one, other = [
                await stack.enter_async_context(http_client(url, headers=bearer(owner), timeout=60))
                for url in fleet.urls[:: 1 if number % 2 else -1]
            ]
            client, at = Client(one, other, stranger, seen), 0
            while not done:
                at += 1
                await client.poll(f"{number}-{at}")

    async def again(outcome: str) -> None:
        """Until the clients see it again."""
        before = seen.outcomes[outcome]
        await until(lambda: seen.outcomes[outcome] >= before + 2)

    clients = asyncio.gather(*(load(number) for number in range(6)))
    try:
        await again("ended: completed")
        for _ in range(2):
            fleet.redis.hang()
            await again(f"queue: {UNAVAILABLE}")
            fleet.redis.wake()
            await again("ended: completed")
        while not (seen.outcomes[f"poll: {UNKNOWN}"] or seen.outcomes["ended: failed"]):
            fleet.redis.lose("toolgate:{responses:")
            await asyncio.sleep(0.02)
        await again("ended: completed")
        fleet.redis.kill()
        await again(f"queue: {UNAVAILABLE}")
        fleet.redis.restart()
        await again("ended: completed")
    finally:
        done = True
        await clients
    assert seen.wrong == []
    assert seen.slowest < SLACK
    assert not seen.outcomes["foreign: 200"]


async def test_what_a_killed_gateway_generated_has_failed(fleet: Fleet) -> None:
    stranger, _ = await make_key(fleet.redis.url, *fleet.urls)
    fleet.backend.scripts["wait"] = Script(("Too late",), hang_after=1)
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        dying, other = [
            await stack.enter_async_context(
                http_client(url, headers=bearer(MASTER_KEY), timeout=60)
            )
            for url in fleet.urls
        ]
        body = {"model": "tiny", "input": "wait", "background": True}
        path = f"{RESPONSES}/{(await dying.post(RESPONSES, json=body)).json()['id']}"
        await until(lambda: fleet.backend.running)
        assert (await other.get(path)).json()["status"] in ACTIVE
        fleet.gateways[0].process.kill()
        shown = (await other.get(path)).json()
        while shown["status"] in ACTIVE:
            await asyncio.sleep(0.05)
            shown = (await other.get(path)).json()
        assert (shown["status"], shown["error"]["code"]) == ("failed", "gateway_stopped")
        assert (await other.get(path, headers=bearer(stranger))).status_code == 404
        assert (await other.delete(path)).status_code == 200
