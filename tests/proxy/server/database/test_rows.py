"""The rows of LiteLLM's database for models of ours, compared with those for LiteLLM's own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.proxy.server.database.conftest import CLIENT, THEIRS, ask_litellm
from tests.support.litellm.database import Database
from tests.support.litellm.own_route import PATHS, Gateway, body_of

EMPTY: tuple[Any, ...] = (None, "", [], {}, "[]", "{}")
RETRIES = {"attempted_retries", "max_retries"}
"""What LiteLLM's router adds to the metadata of a request, and ours does not count."""


def filled(values: dict[str, Any]) -> set[str]:
    return {name for name, value in values.items() if value not in EMPTY}


@pytest.mark.parametrize(
    ("api", "stream"),
    [("chat", False), ("chat", True), ("responses", False), ("messages", False)],
)  # LiteLLM mocks no other streams
async def test_the_log_has_what_litellm_logs_of_its_own_models(
    gateway: Gateway, database: Database, api: str, stream: bool
) -> None:
    key = await database.key(
        team_id=await database.team(team_alias="web"), user_id=await database.user()
    )
    body = body_of(api, stream=stream)
    assert (await ask_litellm(PATHS[api], body | {"model": THEIRS}, key)).status_code == 200
    await database.settled(1)
    client = [(b"user-agent", CLIENT.encode())]
    assert (await gateway.ask(body, path=PATHS[api], key=key, headers=client)).status == 200
    await database.settled(2)
    await database.write()
    theirs, mine = await database.rows()
    assert (theirs.model_group, mine.model_group) == (THEIRS, "tiny")
    assert filled(theirs.model_dump()) - filled(mine.model_dump()) == set()
    assert filled(theirs.metadata) - filled(mine.metadata) == RETRIES
    for column in ("api_key", "call_type", "team_id", "user", "status", "request_tags"):
        assert getattr(mine, column) == getattr(theirs, column)
