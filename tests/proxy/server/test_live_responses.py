"""Responses in flight on the gateway's own route, for readers other than their client."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.apis.responses_api import LOOK, accumulated, check_event, check_response
from tests.support.apis.typed_events import read_events
from tests.support.litellm.own_route import MASTER, Gateway, Response
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.response_store.live import LiveResponse
from toolgate_proxy.response_store.record import EventLog
from toolgate_proxy.server import authorization

PATH = "/v1/responses"
ID = "resp_mine"
USER = {"role": "user", "content": "wait"}
TEXT = f"<think>Let me look around</think>Hello there, friend{call('look', {})}"
SO_FAR, TOKENS = "Hello there,", 12
"""The last text before the script waits, and the tokens up to it."""


@pytest.fixture
def script(gateway: Gateway) -> Script:
    """Waits in the middle, until `hang_after` is None."""
    made = gateway.backend.scripts["wait"] = Script((TEXT,), hang_after=TOKENS, pause=0.01)
    return made


async def asking(gateway: Gateway, key: str = MASTER, **params: Any) -> asyncio.Task[Response]:
    """A request whose response is in flight."""
    body = {"model": "tiny", "input": [USER], "stream": True, "request_id": "mine"}
    leave = params.pop("leave_after", None)
    body |= {"tools": [LOOK], **params}
    task = asyncio.create_task(gateway.ask(body, path=PATH, key=key, leave_after=leave))
    await until(lambda: gateway.backend.running)
    return task


async def in_flight(gateway: Gateway, owner: str = "master key") -> LiveResponse:
    """The response, once all events before the script waits are there."""
    await until(lambda: gateway.here.responses.live.find(owner, ID))
    live = gateway.here.responses.live.find(owner, ID)
    assert live is not None
    await until(lambda: live.log is None or text_of(live.log).endswith(SO_FAR))
    return live


def text_of(log: EventLog) -> str:
    return "".join(each["delta"] for each in log.events() if "delta" in each)


async def get(gateway: Gateway, rest: str = "", method: str = "GET", **query: Any) -> Response:
    key, leave = query.pop("key", MASTER), query.pop("leave_after", None)
    return await gateway.ask(
        b"", path=f"{PATH}/{ID}{rest}", method=method, key=key, query=urlencode(query),
        leave_after=leave,
    )  # fmt: skip


async def waiting(live: LiveResponse) -> None:
    """Returns when a reader has read all events so far."""
    await until(lambda: live._change)


def body_of(response: Response) -> bytes:
    """Without keep-alives, which depend on the time."""
    return b"".join(each for each in response.bodies if not each.startswith(b":"))


async def test_a_response_in_flight_is_retrieved(gateway: Gateway, script: Script) -> None:
    asked = await asking(gateway, metadata={"a": "b"})
    await in_flight(gateway)
    shown = (await get(gateway)).json
    check_response(shown)
    assert (shown["id"], shown["status"], shown["output"]) == (ID, "in_progress", [])
    assert shown["metadata"] == {"a": "b"}
    listed = (await get(gateway, "/input_items")).json["data"]
    assert [item["content"][0]["text"] for item in listed] == ["wait"]
    refused = await get(gateway, "/cancel", "POST")
    assert (refused.status, refused.json["error"]["code"]) == (400, "unsupported_parameter")
    kept = await get(gateway, method="DELETE")
    assert (kept.status, kept.json["error"]["code"]) == (400, "invalid_request")
    script.hang_after = None
    sent = await asked
    assert shown == read_events(body_of(sent))[0]["response"]
    assert (await get(gateway)).json == read_events(body_of(sent))[-1]["response"]
    assert (await get(gateway, method="DELETE")).status == 200


async def test_input_items_of_a_response_in_flight_have_the_earlier_turns(
    gateway: Gateway, script: Script
) -> None:
    first = await gateway.ask({"model": "tiny", "input": "hi"}, path=PATH)
    asked = await asking(gateway, previous_response_id=first.json["id"])
    await in_flight(gateway)
    listed = (await get(gateway, "/input_items", order="asc")).json["data"]
    script.hang_after = None
    await asked
    assert [item["role"] for item in listed] == ["user", "assistant", "user"]
    assert (await get(gateway, "/input_items", order="asc")).json["data"] == listed


async def test_readers_get_the_bytes_of_the_stream(gateway: Gateway, script: Script) -> None:
    """From the beginning and from the middle, before the script waits and after it."""
    asked = await asking(gateway)
    early = asyncio.create_task(_stream(gateway))
    live = await in_flight(gateway)
    number = len(live.log.events()) if live.log is not None else 0
    afters = (0, 1, 4, number + 1, number + 6, 10_000)
    readers = [asyncio.create_task(_stream(gateway, starting_after=at)) for at in afters]
    readers.append(asyncio.create_task(_stream(gateway)))
    await asyncio.sleep(0.1)  # until they wait for more
    script.hang_after = None
    sent = body_of(await asked)
    events = read_events(sent)
    assert accumulated(read_events(sent)) == events[-1]["response"]["output"]
    assert len(events) > number + 8
    *rest, whole = [await each for each in readers]
    for response in (await early, whole):
        assert response.headers[b"content-type"].startswith(b"text/event-stream")
        assert body_of(response) == sent
    for at, response in zip(afters, rest, strict=True):
        assert read_events(body_of(response)) == events[at + 1 :]
    assert body_of(await _stream(gateway)) == sent  # stored by now


async def _stream(gateway: Gateway, **query: Any) -> Response:
    while gateway.here.responses.live.find("master key", ID) is None:
        if (response := await get(gateway, stream="true", **query)).status == 200:
            return response
        await asyncio.sleep(0.01)
    return await get(gateway, stream="true", **query)


async def test_only_the_owner_sees_a_response_in_flight(gateway: Gateway, script: Script) -> None:
    assert gateway.here.key_sync is not None
    teams = {"member": "a", "mate": "a", "rival": "b", "other": None}
    keys = {name: f"sk-a-key-of-{name}-000001" for name in teams}
    made = [key_of(keys[name], name, team=team) for name, team in teams.items()]
    gateway.here.key_sync.key_cache.replace(made)
    keys["admin"] = MASTER
    asked = await asking(gateway, keys["member"])
    await in_flight(gateway, "team a")
    reader = asyncio.create_task(get(gateway, stream="true", key=keys["mate"]))
    for name, key in keys.items():
        friendly = name in ("member", "mate")
        assert (await get(gateway, key=key)).status == (200 if friendly else 404), name
        if not friendly:
            assert (await get(gateway, stream="true", key=key)).status == 404
            assert (await get(gateway, "/input_items", key=key)).status == 404
            assert (await get(gateway, method="DELETE", key=key)).status == 404
    script.hang_after = None
    assert body_of(await reader) == body_of(await asked)


async def test_a_reader_that_disconnects_does_not_touch_the_stream(
    gateway: Gateway, script: Script
) -> None:
    asked = await asking(gateway)
    await in_flight(gateway)
    left = await get(gateway, stream="true", leave_after=0.1)
    assert read_events(body_of(left))[0]["type"] == "response.created"
    assert not asked.done()
    script.hang_after = None
    assert read_events(body_of(await asked))[-1]["type"] == "response.completed"


async def test_readers_see_that_the_client_disconnected(gateway: Gateway, script: Script) -> None:
    """The request is cancelled, as without readers, and not stored."""
    leaves = asyncio.Event()
    asked = await asking(gateway, leave_after=leaves)
    live = await in_flight(gateway)
    reader = asyncio.create_task(get(gateway, stream="true"))
    await waiting(live)
    leaves.set()
    events = read_events(body_of(await reader))
    sent = read_events(body_of(await asked))
    assert events[: len(sent)] == sent
    assert accumulated(events) == events[-1]["response"]["output"]
    check_event(events[-1])
    failed = events[-1]["response"]
    assert (failed["status"], failed["store"]) == ("failed", False)
    assert failed["error"]["code"] == "client_disconnected"
    assert await gateway.backend.idle_within(5)
    assert (await get(gateway)).status == 404


async def test_readers_see_that_the_response_failed(gateway: Gateway, script: Script) -> None:
    script.error_after = TOKENS + 1
    asked = await asking(gateway)
    live = await in_flight(gateway)
    reader = asyncio.create_task(get(gateway, stream="true"))
    await waiting(live)
    script.hang_after = None
    sent = body_of(await asked)
    assert read_events(sent)[-1]["response"]["error"]["code"] == "enforcement_failed"
    assert body_of(await reader) == sent
    assert (await get(gateway)).status == 404


async def test_a_reader_whose_key_is_revoked_gets_no_more(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorization, "gateway", lambda: gateway.here)
    assert gateway.here.key_sync is not None
    keys = {name: f"sk-a-key-of-{name}-000001" for name in ("member", "mate")}
    made = [key_of(keys[name], name, team="a") for name in keys]
    gateway.here.key_sync.key_cache.replace(made)
    asked = await asking(gateway, keys["member"])
    live = await in_flight(gateway, "team a")
    number = len(live.log.events()) if live.log is not None else 0
    reader = asyncio.create_task(get(gateway, stream="true", key=keys["mate"]))
    await waiting(live)
    gateway.here.key_sync.key_cache.replace([made[0]])
    script.hang_after = None
    assert read_events(body_of(await asked))[-1]["type"] == "response.completed"
    *events, error = read_events(body_of(await reader))
    assert len(events) == number + 2
    assert (error["type"], error["code"]) == ("error", "invalid_api_key")
    assert error["sequence_number"] == len(events)


async def test_silent_streams_have_keep_alives(gateway: Gateway, script: Script) -> None:
    asked = await asking(gateway)
    await in_flight(gateway)
    left = await get(gateway, stream="true", leave_after=0.5)
    assert b": waiting\n\n" in left.bodies
    script.hang_after = None
    await asked


async def test_events_that_are_too_large_can_not_be_followed(
    gateway: Gateway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await asking(gateway)
    live = await in_flight(gateway)
    monkeypatch.setattr(live, "_left", 500)
    reader = asyncio.create_task(get(gateway, stream="true"))
    await waiting(live)
    script.hang_after = None
    last = read_events(body_of(await asked))[-1]["response"]
    *events, error = read_events(body_of(await reader))
    assert [each["sequence_number"] for each in (*events, error)] == list(range(len(events) + 1))
    assert (error["type"], error["code"]) == ("error", "invalid_request")
    assert (await get(gateway)).json == last
    assert (await get(gateway, stream="true")).status == 400


@pytest.mark.parametrize("params", [{"store": False}, {"stream": False}])
async def test_other_responses_in_flight_are_unknown(
    gateway: Gateway, script: Script, params: dict[str, Any]
) -> None:
    asked = await asking(gateway, **params)
    await asyncio.sleep(0.1)
    unknown = await get(gateway)
    assert (unknown.status, unknown.json["error"]["code"]) == (404, "response_not_found")
    script.hang_after = None
    assert (await asked).status == 200
