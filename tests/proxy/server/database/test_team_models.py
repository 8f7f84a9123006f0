"""Models of LiteLLM's database, of all teams and of one (`model_info.team_id`)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from litellm.proxy import proxy_server
from litellm.proxy.common_utils.encrypt_decrypt_utils import encrypt_value_helper

from tests.proxy.server.database.conftest import PRICES, ask_litellm, theirs
from tests.proxy.server.database.test_keys import APIS
from tests.support.litellm.database import Database
from tests.support.litellm.own_route import MASTER, PATHS, Gateway, body_of, chat, ours
from tests.support.litellm.router import Row, row, use
from tests.support.servers.fake_backend import KEY
from tests.support.servers.script import Script
from toolgate_proxy.litellm_host.deployments.router import Asker, rows_of

PUBLIC = "reserved"
"""The name by which the team asks for its model."""


def of_team(gateway: Gateway, team: str, public: str = PUBLIC) -> Row:
    """A deployment as LiteLLM names it when a team adds a model."""
    named = ours(gateway.backend, group=f"model_name_{team}_1")
    info = {"id": f"of {team}", "team_id": team, "team_public_model_name": public}
    return named | {"model_info": info}


async def team_with_model(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch, public: str = PUBLIC
) -> str:
    team = await database.team(models=[public])
    use(monkeypatch, ours(gateway.backend), theirs(), of_team(gateway, team, public))
    return team


@APIS
@pytest.mark.parametrize("named", ["public", "internal"])
async def test_a_key_of_the_team_may_use_its_model(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch, api: str, named: str
) -> None:
    team = await team_with_model(gateway, database, monkeypatch)
    model = PUBLIC if named == "public" else f"model_name_{team}_1"
    key = await database.key(team_id=team)
    response = await gateway.ask(body_of(api) | {"model": model}, path=PATHS[api], key=key)
    assert response.status == 200, response.json
    log = await database.logged()
    assert (log.model_id, log.model_group, log.team_id) == (f"of {team}", model, team)
    assert not gateway.host.passed


@APIS
@pytest.mark.parametrize("team", [False, True], ids=["without a team", "of another team"])
@pytest.mark.parametrize("named", ["public", "internal"])
async def test_another_key_may_not(
    gateway: Gateway,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    team: bool,
    named: str,
) -> None:
    owner = await team_with_model(gateway, database, monkeypatch)
    model = PUBLIC if named == "public" else f"model_name_{owner}_1"
    columns: dict[str, Any] = {"team_id": await database.team()} if team else {}
    body, key = body_of(api) | {"model": model}, await database.key(**columns)
    response = await gateway.ask(body, path=PATHS[api], key=key)
    assert response.status == (299 if api == "chat" else 404)  # LiteLLM's app judges it
    assert (await ask_litellm(PATHS[api], body, key)).status_code >= 400
    assert gateway.backend.requests == []


async def test_a_model_of_the_team_is_preferred_to_one_of_the_same_name(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = await team_with_model(gateway, database, monkeypatch, public="tiny")
    for key in (await database.key(team_id=team), await database.key()):
        assert (await gateway.ask(chat(), key=key)).status == 200
    await database.settled(2)
    await database.write()
    assert [row.model_id for row in await database.rows()] == [f"of {team}", "a"]


async def test_the_master_key_may_use_a_model_of_one_team(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await team_with_model(gateway, database, monkeypatch)
    assert (await gateway.ask(chat(model=PUBLIC), key=MASTER)).status == 200
    use(monkeypatch, of_team(gateway, "one"), of_team(gateway, "two"))
    administrator = Asker(is_administrator=True)
    assert rows_of(PUBLIC, administrator) == []
    assert len(rows_of("model_name_two_1", administrator)) == 1


async def test_a_fallback_may_be_a_model_of_the_team(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = await database.team(models=["tiny", PUBLIC])
    broken = row("broken", api_base="http://127.0.0.1:9")
    use(monkeypatch, broken, of_team(gateway, team), fallbacks=[{"tiny": [PUBLIC]}])
    response = await gateway.ask(chat(), key=await database.key(team_id=team))
    assert response.status == 200, response.json
    response = await gateway.ask(chat(), key=await database.key())
    assert response.status >= 299
    assert len(gateway.backend.requests) == 1


@APIS
async def test_a_model_of_the_database_is_found(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    monkeypatch.setenv("LITELLM_SALT_KEY", "sk-salt")
    params = {"model": "toolgate/tiny", "api_base": gateway.backend.url, "api_key": KEY}
    identity = f"added-{uuid.uuid4().hex}"
    stored = await database.add(
        "proxymodeltable",
        model_id=identity,
        model_name="added-in-the-ui",
        litellm_params={name: encrypt_value_helper(value) for name, value in params.items()},
        model_info={"id": identity, "db_model": True},
        created_by="x",
        updated_by="x",
    )
    body = body_of(api) | {"model": "added-in-the-ui"}
    proxy_server.proxy_config._add_deployment(db_models=[stored])
    response = await gateway.ask(body, path=PATHS[api], key=await database.key())
    assert response.status == 200
    assert not gateway.host.passed
    assert (await database.logged()).model_id == identity


@pytest.mark.parametrize("disabled", [False, True])
async def test_a_key_may_disable_fallbacks(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch, disabled: bool
) -> None:
    gateway.backend.scripts["breaks"] = Script(("x",), error_after=0)
    use(monkeypatch, ours(gateway.backend), theirs(), fallbacks=[{"tiny": ["theirs"]}])
    settings: dict[str, Any] = {"metadata": {"disable_fallbacks": disabled}}
    await gateway.ask(chat("breaks"), key=await database.key(max_budget=1.0, **settings))
    assert len(gateway.host.passed) == (0 if disabled else 1)


async def test_litellm_gets_a_fallback_without_the_reservation_of_the_first_model(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its authentication reserves again."""
    gateway.backend.scripts["breaks"] = Script(("x",), error_after=0)
    use(monkeypatch, ours(gateway.backend, **PRICES), theirs(), fallbacks=[{"tiny": ["theirs"]}])
    await gateway.ask(chat("breaks"), key=await database.key(max_budget=100.0))
    [reserved] = database.reservations
    assert reserved["finalized"] is True
    assert len(gateway.host.passed) == 1


@APIS
@pytest.mark.parametrize("holder", ["key", "team"])
async def test_an_alias_of_a_key_or_team_names_a_model_of_ours(
    gateway: Gateway, database: Database, api: str, holder: str
) -> None:
    if holder == "key":
        columns: dict[str, Any] = {"aliases": {"fast": "tiny"}}
    else:
        aliases = {"fast": "tiny"}
        row = await database.add(
            "modeltable", model_aliases=aliases, created_by="x", updated_by="x"
        )
        columns = {"team_id": await database.team(model_id=row.id)}
    body = body_of(api) | {"model": "fast"}
    response = await gateway.ask(body, path=PATHS[api], key=await database.key(**columns))
    assert response.status == 200
    assert (await database.logged()).model_group == "tiny"
    assert not gateway.host.passed


async def test_an_alias_for_a_model_of_another_provider_is_litellms(
    gateway: Gateway, database: Database
) -> None:
    key = await database.key(aliases={"tiny": "theirs"})
    await gateway.ask(chat(), key=key)
    assert len(gateway.host.passed) == 1
    assert gateway.backend.requests == []
