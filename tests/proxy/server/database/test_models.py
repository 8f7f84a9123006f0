"""Models of ours that are in LiteLLM's database (`store_model_in_db`), and keys with settings."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from litellm.proxy import proxy_server
from litellm.proxy.common_utils.encrypt_decrypt_utils import encrypt_value_helper

from tests.proxy.server.database.conftest import PRICES, theirs
from tests.proxy.server.database.test_keys import APIS
from tests.support.litellm.database import Database
from tests.support.litellm.own_route import PATHS, Gateway, body_of, chat, ours
from tests.support.litellm.router import use
from tests.support.servers.fake_backend import KEY
from tests.support.servers.script import Script


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
