"""Keys of LiteLLM's database on the gateway's own route: accepted, or refused as by LiteLLM."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.proxy.server.database.conftest import THEIRS, ask_litellm
from tests.support.litellm.database import Database
from tests.support.litellm.own_route import MASTER, PATHS, Gateway, Response, body_of, chat
from tests.support.servers.script import Script

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
APIS = pytest.mark.parametrize("api", PATHS)

OVER_BUDGET = {"spend": 2.0, "max_budget": 1.0}
REFUSED: dict[str, dict[str, Any]] = {
    "unknown": {"secret": "sk-unknown-to-the-database"},
    "malformed": {"secret": "a-key-without-its-prefix"},
    "blocked": {"blocked": True},
    "expired": {"expires": datetime.now(UTC) - timedelta(hours=1)},
    "over budget": OVER_BUDGET,
    "of another model": {"models": ["other"]},
    "of another route": {"allowed_routes": ["/v1/embeddings"]},
    "of a blocked team": {"team": {"blocked": True}},
    "of a team over budget": {"team": OVER_BUDGET},
    "of a team of another model": {"team": {"models": ["other"]}},
    "of a user over budget": {"user": OVER_BUDGET},
}
"""Columns of the key, or a secret that is not in the database."""


async def secret_of(database: Database, columns: dict[str, Any]) -> str:
    if "secret" in columns:
        return str(columns["secret"])
    match columns:
        case {"team": team}:
            columns = {"team_id": await database.team(**team)}
        case {"user": user}:
            columns = {"user_id": await database.user(**user)}
    return await database.key(**columns)


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
@pytest.mark.parametrize("name", REFUSED)
async def test_a_key_is_refused_as_by_litellm(
    gateway: Gateway, database: Database, api: str, name: str
) -> None:
    key = await secret_of(database, REFUSED[name])
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
