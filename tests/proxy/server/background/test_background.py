"""Responses of the background on the gateway's own route: polled, followed, cancelled, in another
gateway, in one that ends, and without Redis."""

import asyncio
import socket
from urllib.parse import urlencode

import openai
import pytest
import uvicorn

from tests.support.apis.read_responses import read_events
from tests.support.apis.responses_api import LOOK, check_event, check_response
from tests.support.litellm.own_route import MASTER
from tests.support.servers.redis_server import SECRET, response_store
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.response_store import redis_store
from toolgate_proxy.response_store.record import unavailable
from toolgate_proxy.server import authorization, background
from toolgate_proxy.server.background import RUNNING, Place, cancel, stop_all
from toolgate_proxy.server.request_scope import RequestScope

PATH = "/v1/responses"
ACTIVE = ("queued", "in_progress")
OWNER = "master key"


async def ask(gateway, given="wait", **params):
    key = params.pop("key", MASTER)
    body = {"model": "tiny", "input": given, "background": True, "tools": [LOOK], **params}
    return await gateway.ask(body, path=PATH, key=key)


async def queued(gateway, given="wait", **params):
    response = await ask(gateway, given, **params)
    assert response.status == 200, response.json
    check_response(response.json)
    shown = response.json
    assert (shown["status"], shown["background"], shown["store"]) == ("queued", True, True)
    assert (shown["output"], shown["usage"]) == ([], None)
    return shown


async def begun(gateway):
    """Return a response whose generation has begun."""
    shown = await queued(gateway)
    await until(lambda: gateway.backend.running)
    return shown


async def get(gateway, name, rest="", method="GET", **query):
    key, path = query.pop("key", MASTER), f"{PATH}/{name}{rest}"
    return await gateway.ask(b"", path=path, method=method, key=key, query=urlencode(query))


async def ended(gateway, name):
    """The response object, once it has ended."""
    async with asyncio.timeout(20):
        while True:
            found = (await get(gateway, name)).json
            if found.get("status") not in ACTIVE:
                return found
            await asyncio.sleep(0.01)


def running(name):
    return next(run for run in RUNNING if run.turn is not None and run.turn.id == name)


def code(response):
    error = response.json["error"]
    return response.status, error["code"], error["param"]


def with_keys(gateway, **teams):
    """Let the gateway have a key of each name, with its team. Return them, as sent and stored."""
    keys = {name: f"sk-a-key-of-{name}-000001" for name in teams}
    made = [key_of(keys[name], name, team=team) for name, team in teams.items()]
    gateway.here.key_sync.key_cache.replace(made)
    return keys, made


def events_of(response):
    """The events of a stream, which have numbers without gaps."""
    events = read_events(b"".join(each for each in response.bodies if not each.startswith(b":")))
    numbers = [event["sequence_number"] for event in events]
    assert not events or numbers == [*range(numbers[0], numbers[0] + len(events))]
    for event in events:
        check_event(event)
    return events


TEXT = f"<think>Let me look around</think>Hello there, friend{call('look', {})}"


@pytest.fixture
async def gateway(gateway, redis_at_hand):
    gateway.here.responses = response_store(redis_at_hand)
    yield gateway
    await stop_all()


@pytest.fixture
def script(gateway):
    """Waits in the middle, until `hang_after` is None."""
    made = gateway.backend.scripts["wait"] = Script((TEXT,), hang_after=12, pause=0.01)
    return made


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(Place, "lease", 0.4)
    monkeypatch.setattr(background, "PAUSE", 0.02)
    monkeypatch.setattr(redis_store, "TIMEOUT_SECONDS", 1.0)


@pytest.fixture
async def other(redis_at_hand):
    """The store of another gateway."""
    store = response_store(redis_at_hand)
    yield store
    await store.aclose()


async def test_a_response_is_polled_until_it_is_completed_and_stays_so(gateway, script):
    shown = await queued(gateway, metadata={"a": "b"})
    await until(lambda: gateway.backend.running)
    polled = (await get(gateway, shown["id"])).json
    assert polled["status"] in ACTIVE
    assert {**polled, "status": "queued"} == shown
    listed = (await get(gateway, shown["id"], "/input_items")).json["data"]
    assert [item["content"][0]["text"] for item in listed] == ["wait"]
    script.hang_after = None
    last = await ended(gateway, shown["id"])
    check_response(last)
    assert last["status"] == "completed"
    assert [item["type"] for item in last["output"]] == ["reasoning", "message", "function_call"]
    assert {**last, "status": "queued", "output": [], "usage": None, "completed_at": None} == shown
    await until(lambda: not RUNNING)
    assert (await get(gateway, last["id"], "/cancel", "POST")).json == last
    plain = (await ask(gateway, background=False)).json
    for one, other in zip(plain["output"], last["output"], strict=True):
        for name in ("content", "name", "arguments", "type"):
            assert one.get(name) == other.get(name)
    assert plain["usage"] == last["usage"]
    more = {"background": False, "previous_response_id": last["id"], "store": False}
    assert (await ask(gateway, "hi", **more)).status == 200


async def test_an_incomplete_response_is_stored(gateway):
    gateway.backend.scripts["cut"] = Script(("Hello the",), finish="length")
    last = await ended(gateway, (await queued(gateway, "cut"))["id"])
    assert last["incomplete_details"] == {"reason": "max_output_tokens"}


async def test_the_stream_is_followed_and_replayed(gateway, script, other):
    """By the client of the request, by readers while it runs at both gateways, and after it."""
    asked = asyncio.create_task(ask(gateway, stream=True, request_id="mine"))
    name = "resp_mine"
    await until(lambda: [run for run in RUNNING if run.place])
    early = asyncio.create_task(get(gateway, name, stream="true"))
    await until(lambda: gateway.backend.running)
    later = asyncio.create_task(get(gateway, name, stream="true", starting_after=1))
    there = b""
    async for data, number in Place(other, OWNER, name).events(-1):
        there += data
        if number > 6:
            assert code(await ask(gateway, request_id="mine"))[::2] == (400, "request_id")
            script.hang_after = None  # it ends only now
    events = events_of(await asked)
    assert read_events(there) == events
    first = [(event["type"], event["response"]["status"]) for event in events[:3]]
    states = ("created", "queued"), ("queued", "queued"), ("in_progress", "in_progress")
    assert first == [(f"response.{kind}", status) for kind, status in states]
    assert events[0]["sequence_number"] == 0
    assert events[-1]["type"] == "response.completed"
    assert events_of(await early) == events
    assert events_of(await later) == events[2:]
    assert await ended(gateway, name) == events[-1]["response"]
    for after in (0, 4, len(events) - 2, len(events) - 1, 1_000):
        replayed = await get(gateway, name, stream="true", starting_after=after)
        assert events_of(replayed) == events[after + 1 :]
    assert code(await ask(gateway, request_id="mine"))[::2] == (400, "request_id")


async def test_errors_before_it_is_queued_are_those_of_the_request(gateway, redis_at_hand):
    for params, expected in (
        ({"given": 5}, (400, "invalid_request", "input")),
        ({"store": False}, (400, "invalid_request", "background")),
        ({"previous_response_id": "resp_x"}, (400, "previous_response_not_found", None)),
        ({"tools": [{"type": "function"}]}, (400, "invalid_tools", "tools[0]")),
        ({"model": "other"}, (404, "model_not_found", None)),
    ):
        for stream in (True, False):
            refused = await ask(gateway, **{"stream": stream, **params})
            assert code(refused)[:2] == expected[:2], refused.json
    assert code(await ask(gateway, stream="yes")) == (400, "invalid_request", "stream")
    await until(lambda: not RUNNING)
    gateway.here.responses = response_store(redis_at_hand, responses_quota=0)
    assert code(await ask(gateway)) == (400, "unsupported_parameter", "background")
    assert not gateway.backend.requests


@pytest.mark.parametrize("fails", ["at once", "later"])
async def test_a_failure_is_stored(gateway, fails):
    error = {"message": "No.", "code": "backend_failed"}
    when = {"error_status": 500} if fails == "at once" else {"error_after": 2}
    gateway.backend.scripts["breaks"] = Script(("Hello there",), error=error, pause=0.02, **when)
    shown = await queued(gateway, "breaks")
    last = await ended(gateway, shown["id"])
    check_response(last)
    assert (last["status"], last["store"]) == ("failed", True)
    assert bool(last["output"]) == (fails == "later")
    events = events_of(await get(gateway, shown["id"], stream="true"))
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"] == last
    refused = await ask(gateway, "next", previous_response_id=shown["id"])
    assert code(refused) == (400, "invalid_request", "previous_response_id")


async def test_it_is_cancelled(gateway, script):
    shown = await queued(gateway)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    await until(lambda: gateway.backend.running)
    assert (await get(gateway, shown["id"], method="DELETE")).status == 400
    refused = await ask(gateway, "hi", previous_response_id=shown["id"])
    assert code(refused) == (400, "previous_response_not_found", "previous_response_id")
    cancelled = await get(gateway, shown["id"], "/cancel", "POST")
    check_response(cancelled.json)
    assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
    assert await gateway.backend.idle_within(5)
    last = events_of(await follower)[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "cancelled")
    assert (await get(gateway, shown["id"])).json == cancelled.json
    assert (await get(gateway, shown["id"], "/cancel", "POST")).json == cancelled.json
    replayed = events_of(await get(gateway, shown["id"], stream="true"))
    assert replayed[-1]["response"] == cancelled.json
    await until(lambda: not RUNNING)
    assert (await get(gateway, shown["id"], method="DELETE")).status == 200
    assert (await get(gateway, shown["id"])).status == 404


async def test_only_the_owner_has_access(gateway, script):
    keys, _ = with_keys(gateway, member="a", mate="a", rival="b", other=None)
    keys["admin"] = MASTER
    shown = await queued(gateway, key=keys["member"])
    for name, key in keys.items():
        if name in ("member", "mate"):
            assert (await get(gateway, shown["id"], key=key)).status == 200
            continue
        for rest, method in (("", "GET"), ("", "DELETE"), ("/cancel", "POST")):
            assert (await get(gateway, shown["id"], rest, method, key=key)).status == 404
        assert (await get(gateway, shown["id"], stream="true", key=key)).status == 404
    cancelled = await get(gateway, shown["id"], "/cancel", "POST", key=keys["mate"])
    assert cancelled.json["status"] == "cancelled"


async def test_a_reader_whose_key_is_revoked_gets_no_more(gateway, script, monkeypatch):
    monkeypatch.setattr(authorization, "gateway", lambda: gateway.here)
    keys, made = with_keys(gateway, member="a", mate="a")
    shown = await queued(gateway, key=keys["member"])
    reader = asyncio.create_task(get(gateway, shown["id"], stream="true", key=keys["mate"]))
    await until(lambda: gateway.backend.running)
    await asyncio.sleep(0.5)
    gateway.here.key_sync.key_cache.replace([made[0]])
    script.hang_after = None
    assert b": waiting\n\n" in (await reader).bodies
    *events, error = events_of(await reader)
    assert len(events) > 3
    assert (error["type"], error["code"]) == ("error", "invalid_api_key")


async def test_the_limits_of_a_key_hold_until_it_ends(gateway, script):
    sent = "sk-a-key-with-a-limit-01"
    gateway.add_key(sent, key_of(sent, max_parallel_requests=1))
    await queued(gateway, key=sent)
    assert (await ask(gateway, key=sent)).status == 429
    script.hang_after = None
    limiter = gateway.here.limiter
    await until(lambda: not limiter.leases._held)
    assert (await ask(gateway, key=sent)).status == 200


async def test_one_owner_has_few_responses_with_few_bytes_at_once(gateway, script, monkeypatch):
    monkeypatch.setattr(background, "MOST_RUNNING", 2)
    gateway.here.bodies.limit = 10_000
    other = "sk-a-key-of-another-0001"
    gateway.add_key(other, key_of(other))
    large = "wait " * 1_600
    gateway.backend.scripts[large] = script
    await queued(gateway, large)
    assert code(await ask(gateway, "wait " * 500))[:2] == (429, "rate_limit_exceeded")
    await queued(gateway)
    refused = await ask(gateway)
    assert code(refused)[:2] == (429, "rate_limit_exceeded")
    assert refused.headers[b"retry-after"]
    await queued(gateway, key=other)


async def test_it_survives_a_connection_that_is_closed(gateway, script):
    """Over HTTP: the SDK leaves in the middle of the stream, and goes on from there."""
    config = uvicorn.Config(RequestScope(gateway._app), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        async with openai.AsyncOpenAI(api_key=MASTER, base_url=url) as client:
            asked = {"model": "tiny", "input": "wait", "tools": [LOOK], "background": True}
            stream = await client.responses.create(**asked, stream=True)
            seen = [await anext(stream)]
            while seen[-1].type != "response.output_text.delta":
                seen.append(await anext(stream))
            await stream.close()
            name = seen[0].response.id
            await asyncio.sleep(0.2)
            assert (await client.responses.retrieve(name)).status == "in_progress"
            script.hang_after = None
            rest = await client.responses.retrieve(
                name, stream=True, starting_after=seen[-1].sequence_number
            )
            seen += [event async for event in rest]
            assert [event.sequence_number for event in seen] == list(range(len(seen)))
            assert seen[-1].type == "response.completed"
            whole = await client.responses.retrieve(name)
            assert whole.to_dict() == seen[-1].response.to_dict()
            script.hang_after = 12
            queued = await client.responses.create(**asked)
            assert (await client.responses.cancel(queued.id)).status == "cancelled"
        server.should_exit = True
        await serving


async def test_another_gateway_sees_and_cancels_it(impatient, gateway, script, other):
    shown = await begun(gateway)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    there = Place(other, OWNER, shown["id"])
    await asyncio.sleep(0.6)  # longer than a lease
    found = await there.find()
    assert {**found.body, "status": "queued"} == shown
    assert found.body["status"] in ACTIVE
    job = running(shown["id"])
    RUNNING.clear()  # of the other gateway
    cancelled = await cancel(there)
    assert cancelled.body["status"] == "cancelled"
    await until(job.stopped.is_set)
    assert await gateway.backend.idle_within(5)
    assert (await get(gateway, shown["id"])).json == cancelled.body
    assert events_of(await follower)[-1]["response"] == cancelled.body


async def test_a_gateway_that_dies_leaves_it_as_failed(impatient, gateway, script, other):
    shown = await begun(gateway)
    job = running(shown["id"])
    while not job.task.done():  # it is dead; wait_for may swallow a cancellation
        job.task.cancel()
        await asyncio.sleep(0)
    job.stopped.set()
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    last = await ended(gateway, shown["id"])
    check_response(last)
    assert (last["status"], last["error"]["code"]) == ("failed", "gateway_stopped")
    assert events_of(await follower)[-1]["response"] == last
    refused = await ask(gateway, "go on", previous_response_id=shown["id"])
    assert code(refused) == (400, "invalid_request", "previous_response_id")
    assert (await Place(other, OWNER, shown["id"]).find()).body == last


@pytest.mark.parametrize("begun", [True, False])
async def test_a_gateway_that_stops_leaves_it_as_failed_at_once(impatient, gateway, script, begun):
    script.queued = 0 if begun else 60
    shown = await queued(gateway)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    await until(lambda: gateway.backend.running)
    await stop_all()
    last = (await get(gateway, shown["id"])).json
    assert (last["status"], last["error"]["code"]) == ("failed", "gateway_stopped")
    events = events_of(await follower)
    assert events[-1]["response"] == last


async def test_what_redis_loses_ends_the_generation(impatient, gateway, script, redis_at_hand):
    shown = await begun(gateway)
    follower = asyncio.create_task(get(gateway, shown["id"], stream="true"))
    await until(lambda: running(shown["id"])._next > 3)
    await asyncio.sleep(0.3)
    redis_at_hand.client.flushall()
    assert await gateway.backend.idle_within(5)
    assert events_of(await follower)[-1]["type"] in ("error", "response.failed")
    await until(lambda: not RUNNING)
    assert (await get(gateway, shown["id"])).json["error"]["code"] == "gateway_stopped"


@pytest.mark.parametrize("patience", [60.0, 0.05])
async def test_an_end_that_can_not_be_stored_is_stored_later_or_a_failure(
    impatient, gateway, script, redis_at_hand, patience, monkeypatch
):
    monkeypatch.setattr(background, "PATIENCE", patience)
    shown = await begun(gateway)
    job = running(shown["id"])
    redis_at_hand.hang()
    script.hang_after = None
    assert await gateway.backend.idle_within(5)
    if patience < 1:
        await job.task
    else:
        await asyncio.sleep(0.3)
    for refused in (await get(gateway, shown["id"]), await ask(gateway)):
        assert code(refused)[:2] == (503, "responses_unavailable")
        assert refused.headers[b"retry-after"] == b"1"
    redis_at_hand.wake()
    await until(lambda: gateway.here.responses.kept == "fleet")
    last = await ended(gateway, shown["id"])
    if patience < 1:
        assert last["error"]["code"] == "gateway_stopped"
        return
    assert last["status"] == "completed"
    events = events_of(await get(gateway, shown["id"], stream="true"))
    assert events[-1]["response"] == last


async def test_a_write_whose_reply_was_lost_is_repeated(gateway, script, monkeypatch):
    add, lost = Place.add, 0

    async def losing(self, *arguments):
        nonlocal lost
        result = await add(self, *arguments)
        if not lost:
            lost += 1
            raise unavailable("Redis does not respond")
        return result

    monkeypatch.setattr(Place, "add", losing)
    script.hang_after = None
    events = events_of(await ask(gateway, stream=True))
    assert lost
    assert events[-1]["type"] == "response.completed"


async def test_a_response_that_is_too_large_fails_without_its_output(gateway, script, monkeypatch):
    text = " ".join(map(str, range(3_000)))
    gateway.backend.scripts["much"] = Script((text,))
    monkeypatch.setattr(redis_store, "RESPONSE_MAX_BYTES", 4_000)
    last = await ended(gateway, (await queued(gateway, "much"))["id"])
    assert (last["error"]["code"], last["output"]) == ("request_too_large", [])
    assert code(await ask(gateway, text))[:2] == (413, "request_too_large")


async def test_events_that_are_too_large_are_not_followed(gateway, script, monkeypatch):
    monkeypatch.setattr(background, "MOST_BYTES", 6_000)  # even if many events are one
    script.hang_after = None
    shown = await queued(gateway)
    error = events_of(await get(gateway, shown["id"], stream="true"))[-1]
    assert (error["type"], error["code"]) == ("error", "invalid_request")
    assert (await ended(gateway, shown["id"]))["status"] == "completed"


async def test_events_are_kept_for_a_while_after_the_end(gateway, script, monkeypatch):
    monkeypatch.setattr(background, "ENDED_MS", 50)
    script.hang_after = None
    last = await ended(gateway, (await queued(gateway))["id"])
    await asyncio.sleep(0.1)
    refused = await get(gateway, last["id"], stream="true")
    assert code(refused) == (400, "invalid_request", "stream")
    assert (await get(gateway, last["id"])).json == last


async def test_redis_shows_nothing_in_clear_and_forgets_all(gateway, script, redis_at_hand):
    shown = await queued(gateway, instructions="a secret instruction")
    await until(lambda: running(shown["id"])._next > 6)
    client = redis_at_hand.client
    for _ in range(2):
        held = redis_at_hand.everything()
        assert len(held) > 500
        name = shown["id"].encode()
        said = (b"secret", b"Hello", b"look around", b"wait")
        for clear in (*said, name, name[5:], SECRET.encode()):
            assert clear not in held
        assert all(client.pttl(key) > 0 for key in client.scan_iter())
        script.hang_after = None
        await ended(gateway, shown["id"])
    assert (await get(gateway, shown["id"], method="DELETE")).status == 200
    assert not [key for key in client.scan_iter() if b"events" in key or b"state" in key]


async def test_events_of_another_response_do_not_open(gateway, script, redis_at_hand):
    script.hang_after = None
    names = [(await ended(gateway, (await queued(gateway))["id"]))["id"] for _ in range(2)]
    await until(lambda: not RUNNING)
    client = redis_at_hand.client
    one, other = client.scan_iter("*:events")
    client.rename(one, "x")
    client.rename(other, one)
    client.rename("x", other)
    for name in names:
        assert events_of(await get(gateway, name, stream="true"))[-1]["type"] == "error"
