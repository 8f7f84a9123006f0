"""Responses in flight: what readers see, whenever they come, and what is kept for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.response_store.conftest import response
from toolgate_proxy.response_store import live as live_responses
from toolgate_proxy.response_store.live import BATCH, UNPACKED, LiveResponse, LiveResponses
from toolgate_proxy.response_store.sealed_store import EventsTooLarge
from toolgate_proxy.settings import Settings

Event = dict[str, Any]
LAST = {"type": "response.completed"}
DELTA, DONE = "response.output_text.delta", "response.output_text.done"

kinds = st.sampled_from(
    [
        {"type": DELTA, "output_index": 0},
        {"type": DELTA, "output_index": 1},
        {"type": DONE, "output_index": 0},
    ]
)


def event(at: int, kind: Event) -> Event:
    return {**kind, "delta": str(at)} if kind["type"] == DELTA else {**kind, "text": str(at)}


def begun(settings: Settings | None = None, name: str = "resp_1") -> LiveResponse:
    return _begun(LiveResponses(settings or Settings()), name)


def _begun(all_live: LiveResponses, name: str, owner: str = "key a") -> LiveResponse:
    live = all_live.begin(owner, {"id": name}, lambda: response(name))
    assert live is not None
    return live


async def read(live: LiveResponse) -> list[Event]:
    return [each async for batch in live.batches() for each in batch]


@given(st.lists(kinds, max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_readers_see_all_events_whenever_they_come(made: list[Event], comes: list[int]) -> None:
    sent = [event(at, kind) for at, kind in enumerate(made)]

    async def run() -> None:
        live = begun()
        readers = []
        for at, each in enumerate(sent):
            readers += [asyncio.create_task(read(live)) for _ in range(comes.count(at))]
            for _ in range(at % 3):
                await asyncio.sleep(0)
            live.add(each, 100)
        live.end(LAST)
        readers.append(asyncio.create_task(read(live)))  # it found the response before its end
        for seen in await asyncio.gather(*readers):
            assert seen == [*sent, LAST]

    asyncio.run(run())


async def test_a_long_log_comes_in_batches() -> None:
    live = begun()
    sent = [event(at, {"type": DELTA}) for at in range(2 * BATCH + 3)]
    for each in sent:
        live.add(each, 100)
    live.end(LAST)
    batches = [batch async for batch in live.batches()]
    assert [len(batch) for batch in batches] == [BATCH, BATCH, 3, 1]
    assert [each for batch in batches for each in batch] == [*sent, LAST]


def test_a_second_response_with_the_same_id_does_not_replace_the_first() -> None:
    all_live = LiveResponses(Settings())
    first, second = _begun(all_live, "resp_1"), _begun(all_live, "resp_1")
    second.end(LAST)
    assert all_live.find("key a", "resp_1") is first
    first.end(LAST)
    assert all_live.find("key a", "resp_1") is None


async def test_events_that_are_too_large_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_responses, "RESPONSE_MAX_BYTES", 1000)
    live = begun()
    reader = asyncio.create_task(read(live))
    for _ in range(UNPACKED):
        live.add(event(0, {"type": DONE}), 1000)
    await asyncio.sleep(0)
    assert live.log is not None
    live.add(event(0, {"type": DONE}), 1)
    assert live.log is None
    live.add(event(0, {"type": DONE}), 1)
    live.end(LAST)
    for reading in (reader, read(live)):
        with pytest.raises(EventsTooLarge):
            await reading


def test_joined_deltas_count_by_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one text differ in nothing else, and the log has them once."""
    monkeypatch.setattr(live_responses, "RESPONSE_MAX_BYTES", 1000)
    live = begun()
    for at in range(40):
        live.add(event(at, {"type": DELTA}), 1000)
    assert live.log is not None
    live.add(event(0, {"type": DELTA}) | {"delta": "x" * 4000}, 1000)
    assert live.log is None


def test_nothing_is_kept_if_responses_are_not_stored() -> None:
    all_live = LiveResponses(Settings(responses_quota=0))
    assert all_live.begin("key a", {"id": "resp_1"}, lambda: response("resp_1")) is None
    assert all_live.find("key a", "resp_1") is None
