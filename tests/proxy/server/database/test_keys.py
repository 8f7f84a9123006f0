"""Keys of LiteLLM's database on the gateway's own route: accepted, or refused as by LiteLLM, and
the `router_settings` of keys and teams."""

import re

import pytest

from tests.proxy.kit import beside
from tests.proxy.server.database.conftest import PRICES, THEIRS, ask_litellm
from tests.support.effort import rotating, sampled
from tests.support.litellm.fallbacks import naming
from tests.support.litellm.own_route import MASTER, PATHS, body_of, chat, ours
from tests.support.litellm.router import row, use
from tests.support.servers.script import Script

REFUSED = beside(__file__)["refused"]
"""A secret that is not in the database, or columns of a key. test_same_as_litellm.py has more."""
HOLDERS = ["key", "team"]


async def key_for(database, holder, **columns):
    """Return a key that has these columns, or whose team has them."""
    if holder == "team":
        columns = {"team_id": await database.team(**columns)}
    return await database.key(**columns)


async def secret_of(database, given):
    match given:
        case str():
            return given
        case {"team": team}:
            return await key_for(database, "team", **team)
        case {"user": user}:
            return await database.key(user_id=await database.user(**user))
    return await database.key(**given)


def shown(response, api):
    """The error's message, in the form of the API."""
    error = response.json["error"]
    if api == "messages":
        assert response.json["type"] == "error"
    assert error.keys() == {"message", "type", "param", "code"}
    return str(error["message"])


def timeless(message):
    return re.sub(r"\d\d:\d\d:[\d.:+]+", "now", message)


async def litellms(api, key):
    """How LiteLLM's own app refuses a request for a model that it serves."""
    response = await ask_litellm(PATHS[api], body_of(api) | {"model": THEIRS}, key)
    body = response.json()
    return response.status_code, body["error"]["message"] if "error" in body else body["detail"]


@sampled("api, stream", PATHS, [True, False], one_in=3)
async def test_a_key_is_accepted(gateway, database, api, stream):
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
    assert response.context.caller.identity == f"team_id {team}"


@sampled("api, name", PATHS, REFUSED, one_in=3)
async def test_a_key_is_refused_as_by_litellm(gateway, database, api, name):
    key = await secret_of(database, REFUSED[name])
    refused = await gateway.ask(body_of(api), path=PATHS[api], key=key)
    status, message = await litellms(api, key)
    assert refused.status == status >= 400
    assert timeless(shown(refused, api).replace("tiny", THEIRS)) == timeless(message)
    assert gateway.backend.requests == []


async def test_a_request_needs_a_key_that_opens_its_model(gateway, database):
    key = await database.key(models=["tiny"])
    assert (await gateway.ask(chat(), key=key)).status == 200
    assert (await litellms("chat", key))[0] in (401, 403)
    assert (await gateway.ask(chat(), key=None)).status == 401


async def test_a_blocked_key_is_refused_at_once(gateway, database):
    """LiteLLM's endpoint changes the row and the cache."""
    key = await database.key()
    assert (await gateway.ask(chat(), key=key)).status == 200
    for path, expected in (("/key/block", 401), ("/key/unblock", 200)):
        changed = await ask_litellm(path, {"key": key}, MASTER)
        assert changed.status_code == 200, changed.text
        assert (await gateway.ask(chat(), key=key)).status == expected


@sampled("api, holder", PATHS, HOLDERS, one_in=3)
async def test_limits_of_requests_apply(gateway, database, api, holder):
    key = await key_for(database, holder, rpm_limit=2)
    answers = [await gateway.ask(body_of(api), path=PATHS[api], key=key) for _ in range(3)]
    assert [each.status for each in answers] == [200, 200, 429]
    assert b"retry-after" in answers[-1].headers
    assert "limit" in shown(answers[-1], api).lower()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_request_that_ended_leaves_its_place(gateway, database, stream):
    key = await database.key(max_parallel_requests=1)
    gateway.backend.scripts["breaks"] = Script(("x",), error_after=0)
    for logged, content in enumerate(("hi", "breaks", "hi"), start=1):
        response = await gateway.ask(chat(content, stream=stream), key=key)
        assert response.status != 429
        await database.settled(logged)


# --- settings of keys and teams -------------------------------------------------------------------


async def asked(gateway, database, holder, settings, **more):
    key = await key_for(database, holder, router_settings=settings)
    return await gateway.ask(chat(**more), key=key)


@pytest.fixture
def broken(gateway, database, monkeypatch):
    """The model `tiny` fails, and `spare` answers."""
    down = row("down", api_base="http://127.0.0.1:9")
    use(monkeypatch, down, ours(gateway.backend, group="spare"))


@pytest.mark.parametrize("holder", HOLDERS)
async def test_fallbacks_of_a_key_or_team_apply(gateway, database, broken, holder):
    for settings, more, status in (
        ({"fallbacks": [{"tiny": ["spare"]}]}, {}, 200),
        ({}, {}, 503),
        ({"fallbacks": [{"tiny": ["unknown"]}]}, {"fallbacks": ["spare"]}, 200),
    ):
        assert (await asked(gateway, database, holder, settings, **more)).status == status


@sampled("form, holder", naming(""), HOLDERS, one_in=6)
async def test_fallbacks_of_the_request_need_the_permission_of_key_and_team(
    gateway, database, broken, form, holder
):
    key = await key_for(database, holder, models=["tiny"])
    assert (await gateway.ask(chat(fallbacks=naming("spare")[form]), key=key)).status >= 400
    assert gateway.backend.requests == []


@pytest.mark.parametrize(("spent", "status"), [(0.5, 200), (1.5, 503)])
async def test_a_paid_fallback_of_a_free_model_needs_a_budget(
    gateway, database, monkeypatch, spent, status
):
    params = {"api_base": "http://127.0.0.1:9"} | dict.fromkeys(PRICES, 0.0)
    use(monkeypatch, row("x", **params), ours(gateway.backend, group="spare", **PRICES))
    key = await database.key(max_budget=1.0, spend=spent)
    assert (await gateway.ask(chat(fallbacks=["spare"]), key=key)).status == status


UNSUPPORTED = [
    ("routing_strategy", "latency-based-routing"), ("enable_tag_filtering", True),
    ("weights", {"a": 2}),
]  # fmt: skip


@sampled("setting, holder", UNSUPPORTED, HOLDERS, one_in=2)
async def test_settings_that_our_route_does_not_have_are_refused_by_name(
    gateway, database, setting, holder
):
    response = await asked(gateway, database, holder, dict([setting]))
    assert response.status >= 400
    assert setting[0] in response.json["error"]["message"]
    assert gateway.backend.requests == []


@rotating("holder", HOLDERS, one_in=2)
async def test_settings_that_are_the_routers_or_of_other_models_change_nothing(
    gateway, database, holder
):
    settings = {"routing_strategy": "simple-shuffle", "model_group_alias": {"fast": "other"}}
    assert (await asked(gateway, database, holder, settings)).status == 200


async def test_a_retry_policy_of_a_key_applies(gateway, database):
    gateway.backend.scripts["hi"] = Script(("x",), error_after=0)
    policy = {"tiny": {"InternalServerErrorRetries": 1}}
    await asked(gateway, database, "key", {"model_group_retry_policy": policy})
    retried = len(gateway.backend.requests)
    await asked(gateway, database, "key", {})
    assert retried == 2 * (len(gateway.backend.requests) - retried)


ALIASES = [
    {alias: target}
    for alias in ("fast", "tiny")
    for target in ("spare", {"model": "spare", "hidden": False})
]


@sampled("aliases, holder", ALIASES, HOLDERS, one_in=4)
async def test_an_alias_of_a_key_or_team_names_a_model(gateway, database, broken, aliases, holder):
    settings = {"model_group_alias": aliases}
    response = await asked(gateway, database, holder, settings, model=next(iter(aliases)))
    assert response.status == 200
    assert not gateway.host.passed
