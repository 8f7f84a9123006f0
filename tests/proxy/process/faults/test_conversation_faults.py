"""Conversations and background responses of two gateways, while their Redis hangs, loses data,
stops and restarts, and after one of them was killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script, Scripts
from tests.support.servers.two_gateways import Fleet, impatient, two_gateways
from tests.support.servers.virtual_keys import make_key
from tests.support.waiting import until
from toolgate_core.wire import ChatPrompt

RESPONSES, CONVERSATIONS = "/v1/responses", "/v1/conversations"
SAID = "Hello there"
ACTIVE = ("queued", "in_progress")
SLACK = 8.0
"""Seconds that a request may take on a busy machine while Redis hangs."""
UNKNOWN = {"conversation_not_found", "response_not_found"}
UNAVAILABLE = "responses_unavailable"
ENDS: dict[str, tuple[list[str], tuple[str | None, ...]]] = {
    "completed": ([SAID], (None,)),
    "failed": ([], ("gateway_stopped", UNAVAILABLE)),
}
"""By status of a background response: its texts, and the codes of its error."""
EXPECTED = {"200", UNAVAILABLE, "conversation_locked", *UNKNOWN}


class _Paused(Scripts):
    """Responses of the background take a while, so that some are in progress at each fault."""

    def __missing__(self, name: str) -> Script:
        script = super().__missing__(name)
        return replace(script, pause=0.1) if name.startswith("background") else script


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with two_gateways(tmp_path_factory.mktemp("conversations"), impatient) as made:
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
    """Uses two gateways in turn, and another key than its own."""

    one: httpx.AsyncClient
    other: httpx.AsyncClient
    stranger: str
    seen: Seen

    async def send(self, what: str, request: httpx.Request, http: httpx.AsyncClient) -> Any:
        """Return the body; None for an error."""
        answer = await http.send(request)
        self.seen.slowest = max(self.seen.slowest, answer.elapsed.total_seconds())
        body = answer.json()
        code = "200" if answer.is_success else body["error"]["code"]
        self.seen.outcomes[f"{what}: {code}"] += 1
        status = {UNAVAILABLE: 503, "conversation_locked": 409, "200": 200}.get(code, 404)
        if code not in EXPECTED or answer.status_code != status:
            self.seen.wrong.append(f"{what}: {answer.status_code} {answer.text}")
        return body if answer.is_success else None

    async def post(self, what: str, http: httpx.AsyncClient, path: str, **body: Any) -> Any:
        return await self.send(what, http.build_request("POST", path, json=body), http)

    async def get(self, what: str, http: httpx.AsyncClient, path: str) -> Any:
        return await self.send(what, http.build_request("GET", path), http)

    async def expect_foreign(self, path: str) -> None:
        request = self.one.build_request("GET", path, headers=bearer(self.stranger))
        found = await self.send("foreign", request, self.one)
        if found is not None:
            self.seen.wrong.append(f"foreign: {found}")

    async def converse(self, name: str) -> None:
        """Two turns, one at each gateway."""
        made = await self.post("create", self.one, CONVERSATIONS)
        if made is None:
            return
        path = f"{CONVERSATIONS}/{made['id']}"
        turn = {"model": "tiny", "conversation": made["id"]}
        first = await self.post("turn", self.one, RESPONSES, input=f"first {name}", **turn)
        await self.expect_foreign(path)
        listed = await self.get("items", self.other, f"{path}/items?order=asc")
        if listed is not None:
            self.check_items(name, listed["data"], answered=first is not None)
        if first is not None:
            await self.post("turn", self.other, RESPONSES, input=f"second {name}", **turn)

    def check_items(self, name: str, items: list[Any], *, answered: bool) -> None:
        """A turn that failed may have been added, but never a half one."""
        texts = [item["content"][0]["text"] for item in items]
        allowed = [[f"first {name}", SAID], *([] if answered else [[]])]
        if texts not in allowed:
            self.seen.wrong.append(f"items of {name}: {texts}")

    async def poll(self, name: str) -> None:
        """A response of the background, polled at the other gateway until it has ended."""
        body = {"model": "tiny", "input": f"background {name}", "background": True}
        shown = await self.post("queue", self.one, RESPONSES, **body)
        if shown is None:
            return
        path = f"{RESPONSES}/{shown['id']}"
        await self.expect_foreign(path)
        while shown is not None and shown["status"] in ACTIVE:
            await asyncio.sleep(0.02)
            shown = await self.get("poll", self.other, path)
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
                await client.converse(f"{number}-{at}")
                await client.poll(f"{number}-{at}")

    async def again(*outcomes: str) -> None:
        """Until the clients see them again."""
        before = {each: seen.outcomes[each] for each in outcomes}
        await until(lambda: all(seen.outcomes[each] >= count + 2 for each, count in before.items()))

    whole = ("turn: 200", "ended: completed")
    lost = ("turn: conversation_not_found", "poll: response_not_found")
    refused = (f"create: {UNAVAILABLE}", f"queue: {UNAVAILABLE}")
    clients = asyncio.gather(*(load(number) for number in range(6)))
    try:
        await again(*whole)
        for _ in range(2):
            fleet.redis.hang()
            await again(*refused)
            fleet.redis.wake()
            await again(*whole)
        while not all(seen.outcomes[each] for each in lost):
            fleet.redis.lose("toolgate:{responses:")
            await asyncio.sleep(0.02)
        await again(*whole)
        fleet.redis.kill()
        await again(*refused)
        fleet.redis.restart()
        await again(*whole)
    finally:
        done = True
        await clients
    assert seen.wrong == []
    assert seen.slowest < SLACK
    assert not [each for each in seen.outcomes if each.startswith("foreign") and "200" in each]
    turns = 0
    for request in fleet.backend.requests:
        assert isinstance(request.prompt, ChatPrompt)
        *earlier, last = (message["content"] for message in request.prompt.messages)
        name = last.partition(" ")[2]
        continues = last.startswith("second")
        said = [f"first {name}", [{"type": "text", "text": SAID}]]
        assert earlier == (said if continues else [])
        turns += continues
    assert turns


async def test_what_a_killed_gateway_did_has_failed_and_its_conversation_goes_on(
    fleet: Fleet,
) -> None:
    stranger, _ = await make_key(fleet.redis.url, *fleet.urls)
    fleet.backend.scripts["wait"] = Script(("Too late",), hang_after=1)
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        dying, other = [
            await stack.enter_async_context(
                http_client(url, headers=bearer(MASTER_KEY), timeout=60)
            )
            for url in fleet.urls
        ]
        conversation = (await dying.post(CONVERSATIONS, json={})).json()["id"]
        turn = {"model": "tiny", "conversation": conversation}
        body = {**turn, "input": "wait", "background": True}
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
        answer = await other.post(RESPONSES, json={**turn, "input": "go on"})
        while answer.status_code == 409:
            await asyncio.sleep(0.05)
            answer = await other.post(RESPONSES, json={**turn, "input": "go on"})
        assert answer.status_code == 200, answer.text
        assert [message["content"] for message in fleet.backend.messages()] == ["go on"]
