"""Bodies are counted with those of their key, also where LiteLLM checks keys after the body."""

from __future__ import annotations

import asyncio
import json

import pytest
from litellm.proxy import proxy_server

from tests.support.litellm.own_route import MASTER, Gateway, chat
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.limits.key_bounds import SMALL_ROOM

LITELLMS = "/v1/embeddings"
"""A route of LiteLLM, which answers with status 299 here."""


@pytest.fixture(params=[False, True], ids=["alone", "database"], autouse=True)
def database(
    request: pytest.FixtureRequest, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Whether LiteLLM has a database."""
    if request.param:
        monkeypatch.setattr(proxy_server, "prisma_client", object())
    return bool(request.param)


def fill(gateway: Gateway, owner: str) -> None:
    gateway.here.bodies.add(owner, gateway.here.bodies.limit + SMALL_ROOM)


async def status(gateway: Gateway, key: str | None) -> int:
    return (await gateway.ask({"input": "x"}, path=LITELLMS, key=key)).status


async def test_bodies_of_strangers_leave_the_room_of_keys(gateway: Gateway, database: bool) -> None:
    sent = new_key()
    gateway.add_key(sent, key_of(sent))
    fill(gateway, "")
    assert await status(gateway, sent) == await status(gateway, MASTER) == 299
    for key in (None, new_key(), "x" * 10_000):
        assert await status(gateway, key) == (429 if database else 401)


async def test_bodies_of_a_key_leave_the_room_of_others(gateway: Gateway, database: bool) -> None:
    sent = new_key()
    gateway.add_key(sent, key := key_of(sent))
    fill(gateway, key.id)
    assert await status(gateway, sent) == 429
    assert await status(gateway, MASTER) == 299
    assert await status(gateway, new_key()) == (299 if database else 401)


async def test_a_body_counts_until_its_request_has_ended(gateway: Gateway) -> None:
    sent = new_key()
    gateway.add_key(sent, key := key_of(sent))
    gateway.backend.turns = [Script(("Hello.",), queued=1)]
    body = json.dumps(chat(metadata={"a": "x" * 100_000})).encode()
    asked = asyncio.create_task(gateway.ask(body, key=sent))
    await until(lambda: gateway.backend.requests)
    assert gateway.here.bodies.used(key.id) == len(body)
    response = await asked
    assert response.status == 200
    response.context.release_body()  # as RequestScope does, which is not in front here
    assert gateway.here.bodies.used(key.id) == 0


async def test_a_retired_key_has_no_room_of_its_own(gateway: Gateway, database: bool) -> None:
    sent = new_key()
    gateway.add_key(sent, key := key_of(sent, blocked=True))
    fill(gateway, key.id)
    assert await status(gateway, sent) == (299 if database else 401)
    fill(gateway, "")
    assert await status(gateway, sent) == (429 if database else 401)
