"""Keys of LiteLLM's database on the gateway's own route: accepted, or refused as by LiteLLM."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.proxy.server.database.conftest import THEIRS, ask_litellm
from tests.support.litellm.database import Database
from tests.support.litellm.own_route import MASTER, PATHS, Gateway, Response, body_of, chat
from tests.support.servers.script import Script

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
APIS = pytest.mark.parametrize("api", PATHS)

Secret = Callable[[Database], Awaitable[str]]


async def unknown(database: Database) -> str:
    return "sk-unknown-to-the-database"


async def malformed(database: Database) -> str:
    return "a-key-without-its-prefix"


async def blocked(database: Database) -> str:
    return await database.key(blocked=True)


async def expired(database: Database) -> str:
    return await database.key(expires=datetime.now(UTC) - timedelta(hours=1))


async def over_budget(database: Database) -> str:
    return await database.key(spend=2.0, max_budget=1.0)


async def of_another_model(database: Database) -> str:
    return await database.key(models=["other"])


async def of_another_route(database: Database) -> str:
    return await database.key(allowed_routes=["/v1/embeddings"])


async def of_a_blocked_team(database: Database) -> str:
    return await database.key(team_id=await database.team(blocked=True))


async def of_a_team_over_budget(database: Database) -> str:
    return await database.key(team_id=await database.team(spend=2.0, max_budget=1.0))


async def of_a_team_of_another_model(database: Database) -> str:
    return await database.key(team_id=await database.team(models=["other"]))


async def of_a_user_over_budget(database: Database) -> str:
    return await database.key(user_id=await database.user(spend=2.0, max_budget=1.0))


REFUSED: tuple[Secret, ...] = (
    unknown,
    malformed,
    blocked,
    expired,
    over_budget,
    of_another_model,
    of_another_route,
    of_a_blocked_team,
    of_a_team_over_budget,
    of_a_team_of_another_model,
    of_a_user_over_budget,
)


def shown(response: Response, api: str) -> str:
    """The error's message, in the form of the API."""
    error = response.json["error"]
    if api == "messages":
        assert response.json["type"] == "error"
    assert error.keys() == {"message", "type", "param", "code"}
    return str(error["message"])


def timeless(message: str) -> str:
    return re.sub(r"\d\d:\d\d:[\d.:+]+", "now", message)


async def litellms(api: str, key: str) -> tuple[int, str]:
    """How LiteLLM's own app refuses a request for a model that it serves."""
    response = await ask_litellm(PATHS[api], body_of(api) | {"model": THEIRS}, key)
    body = response.json()
    return response.status_code, body["error"]["message"] if "error" in body else body["detail"]


@APIS
@STREAMED
async def test_a_key_is_accepted(
    gateway: Gateway, database: Database, api: str, stream: bool
) -> None:
    team, user = await database.team(models=["tiny"]), await database.user()
    for key in (
        MASTER,
        await database.key(),
        await database.key(models=["tiny"], team_id=team, user_id=user, max_budget=100.0),
    ):
        response = await gateway.ask(body_of(api, stream=stream), path=PATHS[api], key=key)
        assert response.status == 200
        assert stream or b"there" in b"".join(response.bodies)
    assert not gateway.host.passed
    assert response.context.identity == f"team_id {team}"


@APIS
@pytest.mark.parametrize("secret", REFUSED, ids=lambda each: each.__name__)
async def test_a_key_is_refused_as_by_litellm(
    gateway: Gateway, database: Database, api: str, secret: Secret
) -> None:
    key = await secret(database)
    refused = await gateway.ask(body_of(api), path=PATHS[api], key=key)
    status, message = await litellms(api, key)
    assert refused.status == status >= 400
    assert timeless(shown(refused, api).replace("tiny", THEIRS)) == timeless(message)
    assert gateway.backend.requests == []


async def test_a_key_opens_its_models_only(gateway: Gateway, database: Database) -> None:
    key = await database.key(models=["tiny"])
    assert (await gateway.ask(chat(), key=key)).status == 200
    assert (await litellms("chat", key))[0] in (401, 403)


async def test_a_request_without_a_key_is_refused(gateway: Gateway, database: Database) -> None:
    assert (await gateway.ask(chat(), key=None)).status == 401


async def test_a_blocked_key_is_refused_at_once(gateway: Gateway, database: Database) -> None:
    """LiteLLM's endpoint changes the row and the cache."""
    key = await database.key()
    assert (await gateway.ask(chat(), key=key)).status == 200
    for path, expected in (("/key/block", 401), ("/key/unblock", 200)):
        changed = await ask_litellm(path, {"key": key}, MASTER)
        assert changed.status_code == 200, changed.text
        assert (await gateway.ask(chat(), key=key)).status == expected


@APIS
@pytest.mark.parametrize("limited", ["key", "team"])
async def test_limits_of_requests_apply(
    gateway: Gateway, database: Database, api: str, limited: str
) -> None:
    limits: dict[str, Any] = {"rpm_limit": 2}
    if limited == "team":
        limits = {"team_id": await database.team(**limits)}
    key = await database.key(**limits)
    answers = [await gateway.ask(body_of(api), path=PATHS[api], key=key) for _ in range(3)]
    assert [each.status for each in answers] == [200, 200, 429]
    assert b"retry-after" in answers[-1].headers
    assert "limit" in shown(answers[-1], api).lower()


@STREAMED
async def test_a_request_that_ended_leaves_its_place(
    gateway: Gateway, database: Database, stream: bool
) -> None:
    key = await database.key(max_parallel_requests=1)
    gateway.backend.scripts["breaks"] = Script(("x",), error_after=0)
    for logged, content in enumerate(("hi", "breaks", "hi"), start=1):
        response = await gateway.ask(chat(content, stream=stream), key=key)
        assert response.status != 429
        await database.settled(logged)
