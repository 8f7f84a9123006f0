"""Models that a key of LiteLLM's database may use, in LiteLLM's list and one by one."""

from __future__ import annotations

from typing import Any

import pytest
from litellm.proxy import proxy_server

from tests.proxy.server.database.conftest import THEIRS, theirs
from tests.proxy.server.database.test_team_models import PUBLIC, of_team
from tests.support.litellm.database import Database
from tests.support.litellm.own_route import MASTER, Gateway, Header, Response, chat, ours
from tests.support.litellm.router import use
from toolgate_proxy.app import Gateway as App

ANTHROPIC: Header = (b"anthropic-version", b"2023-06-01")
FORMS = pytest.mark.parametrize("headers", [(), (ANTHROPIC,)], ids=["openai", "anthropic"])
PATHS = pytest.mark.parametrize("path", ["/v1/models", "/models"])


@pytest.fixture
async def team(gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch) -> str:
    """A team with a model of its own. LiteLLM's real app is behind the gateway."""
    team = await database.team(models=[PUBLIC])
    slashed = ours(gateway.backend, group="qwen/tiny")
    use(monkeypatch, ours(gateway.backend), slashed, theirs(), of_team(gateway, team))
    assert (await gateway.ask(chat())).status == 200  # the window is known
    gateway._app = App(proxy_server.app)
    return team


async def get(gateway: Gateway, path: str, key: str, headers: tuple[Header, ...] = ()) -> Response:
    return await gateway.ask(b"", method="GET", path=path, key=key, headers=headers)


def window_of(shown: dict[str, Any]) -> Any:
    return shown.get("max_input_tokens")


@FORMS
@PATHS
async def test_the_list_has_the_models_of_the_key_with_their_windows(
    gateway: Gateway, database: Database, team: str, path: str, headers: tuple[Header, ...]
) -> None:
    key = await database.key(models=["tiny", THEIRS])
    response = await get(gateway, path, key, headers)
    assert response.status == 200
    shown = {each["id"]: each for each in response.json["data"]}
    assert [*shown] == ["tiny", THEIRS]
    assert window_of(shown["tiny"]) > 0
    assert window_of(shown[THEIRS]) is None
    [mine] = (await get(gateway, path, await database.key(team_id=team), headers)).json["data"]
    assert (mine["id"], window_of(mine)) == (PUBLIC, window_of(shown["tiny"]))


@FORMS
@PATHS
async def test_one_model_is_as_in_the_list(
    gateway: Gateway, database: Database, team: str, path: str, headers: tuple[Header, ...]
) -> None:
    for key, model in (
        (await database.key(models=["tiny"]), "tiny"),
        (await database.key(), "qwen/tiny"),
        (await database.key(), THEIRS),
        (await database.key(team_id=team), PUBLIC),
        (MASTER, "tiny"),
    ):
        listed = (await get(gateway, path, key, headers)).json["data"]
        response = await get(gateway, f"{path}/{model}", key, headers)
        assert response.status == 200
        assert response.json in listed
        assert response.json["id"] == model


@FORMS
async def test_a_model_of_others_does_not_exist(
    gateway: Gateway, database: Database, team: str, headers: tuple[Header, ...]
) -> None:
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


async def test_an_unknown_key_is_refused(gateway: Gateway, database: Database, team: str) -> None:
    for path in ("/v1/models", "/v1/models/tiny"):
        assert (await get(gateway, path, "sk-unknown")).status == 401
