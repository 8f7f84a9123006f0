"""Models of LiteLLM's database, of all teams and of one (`model_info.team_id`): who may use them,
and the list of them."""

import uuid

import pytest
from litellm.proxy import proxy_server
from litellm.proxy.common_utils.encrypt_decrypt_utils import encrypt_value_helper

from tests.proxy.server.database.conftest import PRICES, THEIRS, ask_litellm, theirs
from tests.support.effort import rotating, sampled
from tests.support.litellm.own_route import MASTER, PATHS, body_of, chat, ours
from tests.support.litellm.router import row, use
from tests.support.servers.fake_backend import KEY
from tests.support.servers.script import Script
from toolgate_proxy.app import Gateway as App
from toolgate_proxy.litellm_host.routing.router import Sender, rows_of

PUBLIC = "reserved"
"""The name by which the team asks for its model."""


def of_team(gateway, team, public=PUBLIC):
    """A deployment as LiteLLM names it when a team adds a model."""
    named = ours(gateway.backend, group=f"model_name_{team}_1")
    info = {"id": f"of {team}", "team_id": team, "team_public_model_name": public}
    return named | {"model_info": info}


async def team_with_model(gateway, database, monkeypatch, public=PUBLIC):
    team = await database.team(models=[public])
    slashed = ours(gateway.backend, group="qwen/tiny")
    use(monkeypatch, ours(gateway.backend), slashed, theirs(), of_team(gateway, team, public))
    return team


@sampled("api, named", PATHS, ["public", "internal"], one_in=2)
async def test_only_a_key_of_the_team_may_use_its_model(gateway, database, monkeypatch, api, named):
    team = await team_with_model(gateway, database, monkeypatch)
    body = body_of(api) | {"model": PUBLIC if named == "public" else f"model_name_{team}_1"}
    for columns in ({}, {"team_id": await database.team()}):
        key = await database.key(**columns)
        response = await gateway.ask(body, path=PATHS[api], key=key)
        assert response.status == (299 if api == "chat" else 404)  # LiteLLM's app judges it
        assert (await ask_litellm(PATHS[api], body, key)).status_code >= 400
    assert gateway.backend.requests == []
    gateway.host.passed.clear()
    key = await database.key(team_id=team)
    response = await gateway.ask(body, path=PATHS[api], key=key)
    assert response.status == 200, response.json
    await database.settled(1)
    await database.write()
    [log] = [each for each in await database.rows() if each.status == "success"]
    assert (log.model_id, log.model_group, log.team_id) == (f"of {team}", body["model"], team)
    assert not gateway.host.passed


async def test_a_model_of_the_team_is_preferred_to_one_of_the_same_name(
    gateway, database, monkeypatch
):
    team = await team_with_model(gateway, database, monkeypatch, public="tiny")
    for key in (await database.key(team_id=team), await database.key()):
        assert (await gateway.ask(chat(), key=key)).status == 200
    await database.settled(2)
    await database.write()
    assert [row.model_id for row in await database.rows()] == [f"of {team}", "a"]


async def test_the_master_key_may_use_a_model_of_one_team(gateway, database, monkeypatch):
    await team_with_model(gateway, database, monkeypatch)
    assert (await gateway.ask(chat(model=PUBLIC), key=MASTER)).status == 200
    use(monkeypatch, of_team(gateway, "one"), of_team(gateway, "two"))
    administrator = Sender(is_administrator=True)
    assert rows_of(PUBLIC, administrator) == []
    assert len(rows_of("model_name_two_1", administrator)) == 1


async def test_a_fallback_may_be_a_model_of_the_team(gateway, database, monkeypatch):
    team = await database.team(models=["tiny", PUBLIC])
    broken = row("broken", api_base="http://127.0.0.1:9")
    use(monkeypatch, broken, of_team(gateway, team), fallbacks=[{"tiny": [PUBLIC]}])
    response = await gateway.ask(chat(), key=await database.key(team_id=team))
    assert response.status == 200, response.json
    response = await gateway.ask(chat(), key=await database.key())
    assert (response.status >= 299, len(gateway.backend.requests)) == (True, 1)


@rotating("api", PATHS, one_in=3)
async def test_a_model_of_the_database_is_found(gateway, database, monkeypatch, api):
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
async def test_litellm_gets_a_fallback_without_a_reservation_unless_the_key_disables_fallbacks(
    gateway, database, monkeypatch, disabled
):
    """LiteLLM's authentication reserves again."""
    gateway.backend.scripts["breaks"] = Script(("x",), error_after=0)
    use(monkeypatch, ours(gateway.backend, **PRICES), theirs(), fallbacks=[{"tiny": [THEIRS]}])
    settings = {"metadata": {"disable_fallbacks": disabled}}
    await gateway.ask(chat("breaks"), key=await database.key(max_budget=100.0, **settings))
    assert len(gateway.host.passed) == (0 if disabled else 1)
    [reserved] = database.reservations
    assert disabled or reserved["finalized"] is True


@sampled("api, holder", PATHS, ["key", "team"], one_in=3)
async def test_an_alias_of_a_key_or_team_names_a_model_of_ours(gateway, database, api, holder):
    aliases = {"fast": "tiny"}
    columns = {"aliases": aliases}
    if holder == "team":
        row = await database.add(
            "modeltable", model_aliases=aliases, created_by="x", updated_by="x"
        )
        columns = {"team_id": await database.team(model_id=row.id)}
    body = body_of(api) | {"model": "fast"}
    response = await gateway.ask(body, path=PATHS[api], key=await database.key(**columns))
    assert response.status == 200
    assert (await database.logged()).model_group == "tiny"
    assert not gateway.host.passed


async def test_an_alias_for_a_model_of_another_provider_is_litellms(gateway, database):
    await gateway.ask(chat(), key=await database.key(aliases={"tiny": THEIRS}))
    assert (len(gateway.host.passed), gateway.backend.requests) == (1, [])


# --- the list of models ---------------------------------------------------------------------------

HEADERS = [(), ((b"anthropic-version", b"2023-06-01"),)]


@pytest.fixture
async def team(gateway, database, monkeypatch):
    """A team with a model of its own. LiteLLM's real app is behind the gateway."""
    team = await team_with_model(gateway, database, monkeypatch)
    assert (await gateway.ask(chat())).status == 200  # the window is known
    gateway._app = App(proxy_server.app)
    return team


async def get(gateway, path, key, headers=()):
    return await gateway.ask(b"", method="GET", path=path, key=key, headers=headers)


@sampled("headers, path", HEADERS, ["/v1/models", "/models"], one_in=2)
async def test_the_list_and_each_model_are_those_of_the_key_with_their_windows(
    gateway, database, team, headers, path
):
    keys_of_all = (MASTER, await database.key())
    keys = {
        await database.key(models=["tiny", THEIRS]): ["tiny", THEIRS],
        await database.key(team_id=team): [PUBLIC],
        keys_of_all[0]: ["tiny"],
        keys_of_all[1]: ["qwen/tiny"],
    }
    for key, named in keys.items():
        response = await get(gateway, path, key, headers)
        assert response.status == 200
        listed = {each["id"]: each for each in response.json["data"]}
        assert [*listed] == named or key in keys_of_all
        for name in named:
            window = listed[name].get("max_input_tokens")
            assert window is None if name == THEIRS else window > 0
            one = await get(gateway, f"{path}/{name}", key, headers)
            assert (one.status, one.json) == (200, listed[name])


@rotating("path", ["/v1/model/info", "/model/info"], one_in=2)
async def test_details_of_models_are_those_of_the_key(gateway, database, team, path):
    for key, named in (
        (await database.key(models=["tiny", THEIRS]), ["tiny", THEIRS]),
        (await database.key(team_id=team), [PUBLIC]),
    ):
        response = await get(gateway, path, key)
        listed = {each["model_name"]: each for each in response.json["data"]}
        assert [*listed] == named
        for name, entry in listed.items():
            assert (entry["model_info"]["max_input_tokens"] is None) is (name == THEIRS)
            assert "api_base" not in entry["litellm_params"]
            assert entry["litellm_params"]["model"]
    assert "api_base" in (await get(gateway, path, MASTER)).json["data"][0]["litellm_params"]


@pytest.mark.parametrize("headers", HEADERS, ids=["openai", "anthropic"])
async def test_a_model_of_others_does_not_exist(gateway, database, team, headers):
    for key, model in (
        (await database.key(models=["tiny"]), THEIRS),
        (await database.key(), PUBLIC),
        (await database.key(team_id=await database.team(models=["tiny"])), PUBLIC),
        (MASTER, "unheard-of"),
    ):
        response = await get(gateway, f"/v1/models/{model}", key, headers)
        assert response.status == 404
        assert model in response.json["error"]["message"]
        assert "team" not in response.json["error"]["message"]
    for path in ("/v1/models", "/v1/models/tiny"):
        assert (await get(gateway, path, "sk-unknown", headers)).status == 401
