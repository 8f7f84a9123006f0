"""Two gateways over one Redis: limits and stored responses hold, through outages and kills."""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import httpx
import pytest

from tests.proxy.process.kit import CHAT, RESPONSES
from tests.support.apis.sdk_requests import asked
from tests.support.effort import repeats
from tests.support.servers.gateway_process import MASTER_KEY, impatient, two_gateways
from tests.support.servers.http_client import bearer, http_client, openai_client
from tests.support.servers.script import Script, Scripts
from tests.support.servers.virtual_keys import make_key
from tests.support.waiting import until
from toolgate_core.wire import ChatPrompt

AT_ONCE = repeats(120, nightly=200)
SLACK = 30.0
"""Seconds that a request may take on a busy machine while Redis hangs."""
ACTIVE = ("queued", "in_progress")
UNAVAILABLE, UNKNOWN = "responses_unavailable", "response_not_found"


class Answers(Scripts):
    """Responses in the background take a while, so that some are in progress at each fault."""

    def __missing__(self, name):
        paused = 0.1 if name.startswith("background") else 0.0
        return replace(super().__missing__(name), pause=paused)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with two_gateways(tmp_path_factory.mktemp("fleet"), impatient) as made:
        made.backend.scripts = Answers(
            {
                "short": Script(("Hello there, friend",), pause=0.02),
                "slow": Script(("Hello there, friend " * 6,), pause=0.05),
                "endless": Script(("Hello",), hang_after=1),
            }
        )
        yield made


@pytest.fixture(autouse=True)
def all_alive(fleet):
    """After each test."""
    yield
    for gateway in fleet.gateways:
        gateway.require_alive()


@asynccontextmanager
async def clients_of(fleet, sent):
    """A client of each gateway."""
    limits = httpx.Limits(max_connections=AT_ONCE)
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(http_client(url, sent, timeout=120, limits=limits))
            for url in fleet.urls
        ]


@pytest.fixture
async def clients(fleet):
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(openai_client(url, MASTER_KEY, timeout=60))
            for url in fleet.urls
        ]


def prompt(fleet):
    return [str(message["content"]) for message in fleet.backend.messages()]


async def answers(fleet, sent, number, **params):
    """Those to so many requests at once, half of them at either gateway."""
    async with clients_of(fleet, sent) as both:
        return await asyncio.gather(
            *(
                both[at % 2].post(CHAT, json=asked(**({"script": "short"} | params)))
                for at in range(number)
            )
        )


async def storm(fleet, sent, number, **params):
    """How often each status came."""
    said = await answers(fleet, sent, number, **params)
    return Counter(response.status_code for response in said)


async def test_parallel_requests_are_never_exceeded(fleet):
    sent, _ = await make_key(fleet.redis.url, *fleet.urls, max_parallel_requests=60)
    seen = 0

    async def look():
        nonlocal seen
        while True:
            seen = max(seen, fleet.backend.running)
            await asyncio.sleep(0.002)

    looking = asyncio.create_task(look())
    said = await storm(fleet, sent, AT_ONCE, script="slow", stream=True)
    looking.cancel()
    assert set(said) == {200, 429}
    assert said[200] >= 60
    assert seen <= 60
    for _ in range(3):  # all of the room is there again, at either gateway
        assert await storm(fleet, sent, 60, stream=True) == {200: 60}


def is_refused(response):
    """A busy gateway has begun a stream, with comments, before it refuses the request."""
    began = response.status_code == 200 and '"choices"' not in response.text
    assert response.status_code in (200, 503)
    assert not began or "limits_unavailable" in response.text
    return began or response.status_code == 503


@pytest.mark.parametrize("fault", ["hang", "kill"])
async def test_redis_outage_returns_503_for_limited_keys_only(fleet, fault):
    limited, _ = await make_key(fleet.redis.url, *fleet.urls, rpm=1000, max_parallel_requests=50)
    counted, _ = await make_key(fleet.redis.url, *fleet.urls, rpm=30)
    free, _ = await make_key(fleet.redis.url, *fleet.urls)
    streams, _ = await make_key(fleet.redis.url, *fleet.urls, max_parallel_requests=AT_ONCE)
    began = time.monotonic()
    assert await storm(fleet, counted, 20) == {200: 20}
    await asyncio.sleep(1.5)  # Redis writes its log every second
    in_flight = asyncio.create_task(answers(fleet, streams, AT_ONCE, script="slow", stream=True))
    await until(lambda: fleet.backend.running >= AT_ONCE // 4)
    fleet.redis.hang() if fault == "hang" else fleet.redis.kill()
    try:
        closed = await storm(fleet, limited, 20)
        assert closed == {503: 20}
        assert await storm(fleet, free, 20) == {200: 20}
        ended = await in_flight
        let_in = [response for response in ended if not is_refused(response)]
        assert len(let_in) >= AT_ONCE // 4
        assert all(response.text.endswith("data: [DONE]\n\n") for response in let_in)
        assert all(response.text.count('"stop"') == 1 for response in let_in)
        async with clients_of(fleet, limited) as (http, _):
            response = await http.post(CHAT, json=asked())
            assert response.json()["error"]["code"] == "limits_unavailable"
            assert int(response.headers["retry-after"]) == 1
            wrong = await http.post(CHAT, json=asked(), headers={"Authorization": "Bearer no"})
            assert wrong.status_code == 401
    finally:
        fleet.redis.wake() if fault == "hang" else fleet.redis.restart()
    await until(lambda: storm(fleet, limited, 50), 60, {200: 50}.__eq__)
    # until what ended meanwhile counts no longer
    await until(lambda: storm(fleet, streams, AT_ONCE), 60, {200: AT_ONCE}.__eq__)
    again = await storm(fleet, counted, 40)
    if time.monotonic() - began < 60:  # else the minute of the first twenty is over
        assert again == {200: 10, 429: 30}, "what was counted before is still counted"


@dataclass
class Seen:
    """What the clients of the load saw."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """By operation: `200`, or the code of the error."""
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)

    async def again(self, outcome):
        """Wait until the clients see it again."""
        before = self.outcomes[outcome]
        await until(lambda: self.outcomes[outcome] >= before + 2, 60)


@dataclass(frozen=True)
class Client:
    """Uses two gateways, and another key than its own."""

    one: httpx.AsyncClient
    other: httpx.AsyncClient
    stranger: str
    seen: Seen

    async def send(self, what, http, path, **more):
        """Return the body; None for an error."""
        answer = await http.request("POST" if "json" in more else "GET", path, **more)
        self.seen.slowest = max(self.seen.slowest, answer.elapsed.total_seconds())
        body = answer.json()
        code = "200" if answer.is_success else body["error"]["code"]
        self.seen.outcomes[f"{what}: {code}"] += 1
        statuses = {"200": 200, UNAVAILABLE: 503, UNKNOWN: 404, "previous_response_not_found": 400}
        if answer.status_code != statuses.get(code):
            self.seen.wrong.append(f"{what}: {answer.status_code} {answer.text}")
        return body if answer.is_success else None

    async def converse(self, name):
        """Two turns over two gateways, and every way to read them, also with another key."""
        first = await self.send("first", self.one, RESPONSES, json=responding(f"first {name}"))
        if first["output"][0]["content"][0]["text"] != "Hello there":
            self.seen.wrong.append(f"first: {first}")
        reason = first.get("toolgate", {}).get("not_stored")
        self.seen.outcomes[f"store: {reason}"] += 1
        if first["store"] != (reason is None):
            self.seen.wrong.append(f"store: {first}")
        path = f"{RESPONSES}/{first['id']}"
        found = await self.send("get", self.other, path)
        if found and found["output"] != first["output"]:
            self.seen.wrong.append(f"get: {found}")
        await self.send("foreign", self.one, path, headers=bearer(self.stranger))
        more = {"previous_response_id": first["id"]}
        await self.send(
            "continue", self.other, RESPONSES, json=responding(f"second {name}", **more)
        )

    async def poll(self, name):
        """Create a response, and poll it at the other gateway until it has ended."""
        sent = responding(f"background {name}", background=True)
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
        if shown["status"] == "completed":
            right = texts == ["Hello there"] and code is None
        else:
            right = not texts and code in ("gateway_stopped", UNAVAILABLE)
        if not right:
            self.seen.wrong.append(f"background {name}: {shown}")


def responding(text, **params):
    return {"model": "tiny", "input": text, **params}


async def test_outages_of_redis_cause_no_wrong_response(fleet):
    owner, _ = await make_key(fleet.redis.url, *fleet.urls)
    stranger, _ = await make_key(fleet.redis.url, *fleet.urls)
    fleet.backend.requests.clear()
    seen, done = Seen(), False

    async def load(number):
        async with clients_of(fleet, owner) as (one, other):
            client = Client(*((one, other) if number % 2 else (other, one)), stranger, seen)
            at = 0
            while not done:
                at += 1
                await (client.converse if number < 4 else client.poll)(f"{number}-{at}")

    loading = asyncio.gather(*(load(number) for number in range(8)))
    try:
        for ended in ("continue: 200", "ended: completed"):
            await seen.again(ended)
        fleet.redis.hang()
        for outcome in ("store: unavailable", f"continue: {UNAVAILABLE}", f"queue: {UNAVAILABLE}"):
            await seen.again(outcome)
        fleet.redis.wake()
        await seen.again("continue: 200")

        def is_lost():
            fleet.redis.lose("toolgate:{responses:")
            return seen.outcomes[f"poll: {UNKNOWN}"] or seen.outcomes["ended: failed"]

        await until(is_lost, 60)
        await seen.again("continue: 200")
        await seen.again("ended: completed")
        async with clients_of(fleet, owner) as (http, _):
            kept = (await http.post(RESPONSES, json=responding("kept"))).json()
        fleet.redis.kill()
        for outcome in ("store: unavailable", f"get: {UNAVAILABLE}", f"queue: {UNAVAILABLE}"):
            await seen.again(outcome)
        fleet.redis.restart()
        for ended in ("continue: 200", "ended: completed"):
            await seen.again(ended)
    finally:
        done = True
        await loading
    assert seen.wrong == []
    assert seen.slowest < SLACK
    assert not seen.outcomes["foreign: 200"]
    async with clients_of(fleet, owner) as (_, http):
        assert (await http.get(f"{RESPONSES}/{kept['id']}")).json() == kept
    continued = 0
    for request in fleet.backend.requests:
        assert isinstance(request.prompt, ChatPrompt)
        *earlier, last = (message["content"] for message in request.prompt.messages)
        if last.startswith("second"):
            name = last.removeprefix("second ")
            assert earlier == [f"first {name}", [{"type": "text", "text": "Hello there"}]]
            continued += 1
    assert continued == seen.outcomes["continue: 200"]


async def test_a_killed_gateway_leaves_places_failures_and_responses(fleet):
    """Parallel requests of its keys end, what it generated in the background has failed, and a
    gateway that is started again has the stored responses."""
    sent, _ = await make_key(fleet.redis.url, *fleet.urls, max_parallel_requests=20)
    owner, _ = await make_key(fleet.redis.url, *fleet.urls)
    body = asked("endless", stream=True)
    async with clients_of(fleet, sent) as (stays, dies), clients_of(fleet, owner) as (other, dying):
        stored = (await dying.post(RESPONSES, json=responding("a"))).json()
        shown = (await dying.post(RESPONSES, json=responding("endless", background=True))).json()
        path = f"{RESPONSES}/{shown['id']}"
        await until(lambda: fleet.backend.running == 1, 60)
        hanging = [asyncio.create_task(dies.post(CHAT, json=body)) for _ in range(20)]
        await until(lambda: fleet.backend.running == 21, 60)
        assert (await stays.post(CHAT, json=asked("short"))).status_code == 429
        assert (await other.get(path)).json()["status"] in ACTIVE
        port = int(fleet.urls[1].rpartition(":")[2])
        fleet.gateways[1].process.kill()
        fleet.gateways[1].process.join(20)
        await asyncio.gather(*hanging, return_exceptions=True)
        short = partial(stays.post, CHAT, json=asked("short"))
        await until(short, 60, lambda response: response.status_code != 429)
        get = partial(other.get, path)
        shown = (await until(get, 60, lambda each: each.json()["status"] not in ACTIVE)).json()
        said = await asyncio.gather(*(stays.post(CHAT, json=asked("short")) for _ in range(20)))
        assert {response.status_code for response in said} == {200}
        assert (shown["status"], shown["error"]["code"]) == ("failed", "gateway_stopped")
        assert (await other.get(path, headers=bearer(sent))).status_code == 404
        assert (await other.delete(path)).status_code == 200
    fleet.start(1, port)
    fleet.wait()
    assert await storm(fleet, sent, 20) == {200: 20}
    async with clients_of(fleet, owner) as (_, restarted):
        assert (await restarted.get(f"{RESPONSES}/{stored['id']}")).json() == stored
    async with clients_of(fleet, MASTER_KEY) as (_, restarted):
        assert (await restarted.get("/toolgate/status")).json()["responses"] == "fleet"
