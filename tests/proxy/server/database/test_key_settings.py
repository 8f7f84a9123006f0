"""`router_settings` of keys and teams in LiteLLM's database."""

from __future__ import annotations

from typing import Any

import pytest

from tests.proxy.server.database.conftest import PRICES
from tests.support.litellm.database import Database
from tests.support.litellm.fallbacks import FORMS, naming
from tests.support.litellm.own_route import Gateway, Response, chat, ours
from tests.support.litellm.router import row, use
from tests.support.servers.script import Script

HOLDERS = pytest.mark.parametrize("holder", ["key", "team"])


async def asked(
    gateway: Gateway, database: Database, holder: str, settings: dict[str, Any], **more: Any
) -> Response:
    columns: dict[str, Any] = {"router_settings": settings}
    if holder == "team":
        columns = {"team_id": await database.team(**columns)}
    return await gateway.ask(chat(**more), key=await database.key(**columns))


@pytest.fixture
def broken(gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model `tiny` fails, and `spare` answers."""
    down = row("down", api_base="http://127.0.0.1:9")
    use(monkeypatch, down, ours(gateway.backend, group="spare"))


@HOLDERS
async def test_fallbacks_of_a_key_or_team_apply(
    gateway: Gateway, database: Database, broken: None, holder: str
) -> None:
    fallbacks = {"fallbacks": [{"tiny": ["spare"]}]}
    assert (await asked(gateway, database, holder, fallbacks)).status == 200
    assert (await asked(gateway, database, holder, {})).status == 503


async def test_fallbacks_of_the_request_replace_those_of_its_key(
    gateway: Gateway, database: Database, broken: None
) -> None:
    response = await asked(
        gateway, database, "key", {"fallbacks": [{"tiny": ["unknown"]}]}, fallbacks=["spare"]
    )
    assert response.status == 200


@FORMS
@HOLDERS
async def test_fallbacks_of_the_request_need_the_permission_of_key_and_team(
    gateway: Gateway, database: Database, broken: None, form: str, holder: str
) -> None:
    limited: dict[str, Any] = {"models": ["tiny"]}
    of_key = limited if holder == "key" else {"team_id": await database.team(**limited)}
    body, key = chat(fallbacks=naming("spare")[form]), await database.key(**of_key)
    assert (await gateway.ask(body, key=key)).status >= 400
    assert gateway.backend.requests == []


@pytest.mark.parametrize(("spent", "status"), [(0.5, 200), (1.5, 503)])
async def test_a_paid_fallback_of_a_free_model_needs_a_budget(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch, spent: float, status: int
) -> None:
    params: Any = {"api_base": "http://127.0.0.1:9"} | dict.fromkeys(PRICES, 0.0)
    use(monkeypatch, row("x", **params), ours(gateway.backend, group="spare", **PRICES))
    key = await database.key(max_budget=1.0, spend=spent)
    assert (await gateway.ask(chat(fallbacks=["spare"]), key=key)).status == status


@HOLDERS
@pytest.mark.parametrize(
    "settings",
    [
        {"routing_strategy": "latency-based-routing"},
        {"enable_tag_filtering": True},
        {"weights": {"a": 2}},
    ],
    ids=lambda settings: next(iter(settings)),
)
async def test_settings_that_our_route_does_not_have_are_refused_by_name(
    gateway: Gateway, database: Database, holder: str, settings: dict[str, Any]
) -> None:
    response = await asked(gateway, database, holder, settings)
    assert response.status >= 400
    assert next(iter(settings)) in response.json["error"]["message"]
    assert gateway.backend.requests == []


@HOLDERS
async def test_settings_that_are_the_routers_or_of_other_models_change_nothing(
    gateway: Gateway, database: Database, holder: str
) -> None:
    settings = {"routing_strategy": "simple-shuffle", "model_group_alias": {"fast": "other"}}
    assert (await asked(gateway, database, holder, settings)).status == 200


async def test_a_retry_policy_of_a_key_applies(gateway: Gateway, database: Database) -> None:
    gateway.backend.scripts["hi"] = Script(("x",), error_after=0)
    policy = {"tiny": {"InternalServerErrorRetries": 1}}
    await asked(gateway, database, "key", {"model_group_retry_policy": policy})
    retried = len(gateway.backend.requests)
    await asked(gateway, database, "key", {})
    assert retried == 2 * (len(gateway.backend.requests) - retried)


@HOLDERS
@pytest.mark.parametrize("alias", ["fast", "tiny"])
@pytest.mark.parametrize("form", ["name", "object"])
async def test_an_alias_of_a_key_or_team_names_a_model(
    gateway: Gateway, database: Database, broken: None, holder: str, alias: str, form: str
) -> None:
    target = "spare" if form == "name" else {"model": "spare", "hidden": False}
    settings = {"model_group_alias": {alias: target}}
    response = await asked(gateway, database, holder, settings, model=alias)
    assert response.status == 200
    assert not gateway.host.passed
