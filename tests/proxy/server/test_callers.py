"""What callers see, share and may open: models, prompts in caches, guesses of keys, open routes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.litellm.own_route import MASTER, PATHS, Gateway, Response, body_of, ours
from tests.support.litellm.own_route_process import own_route
from tests.support.litellm.router import foreign, use
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.api.shared.output import COMMENT

APIS = pytest.mark.parametrize("api", list(PATHS))
NAMES = ("tiny", "org/tiny", "other")


async def read(gateway: Gateway, path: str, key: str | None = MASTER) -> Response:
    return await gateway.ask({}, path=path, method="GET", key=key)


def add(gateway: Gateway, **keys: dict[str, Any]) -> list[str]:
    """Keys with these terms, by name; no others."""
    assert gateway.here.key_sync is not None
    made = {f"sk-{name}": terms for name, terms in keys.items()}
    listed = [key_of(sent, **terms) for sent, terms in made.items()]
    gateway.here.key_sync.key_cache.replace([], listed)
    return [*made]


@pytest.fixture
def models(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, *(ours(gateway.backend, name) for name in NAMES))


@pytest.mark.usefixtures("models")
async def test_a_key_lists_and_retrieves_only_its_models(gateway):
    some, all_ = add(gateway, some={"models": NAMES[:2]}, all={})
    for key, names in ((some, NAMES[:2]), (all_, NAMES), (MASTER, NAMES)):
        listed = (await read(gateway, "/v1/models", key)).json["data"]
        assert [model["id"] for model in listed] == list(names)
        for model in listed:
            assert (model["object"], model["owned_by"]) == ("model", "toolgate")
            assert model["created"] > 1_760_000_000
            assert model["max_model_len"] > 0
            assert (await read(gateway, f"/v1/models/{model['id']}", key)).json == model
    for name in ("other", "unknown", "org/unknown", "tiny/", "*"):
        refused = await read(gateway, f"/v1/models/{name}", some)
        error = refused.json["error"]
        assert (refused.status, error["code"]) == (404, "model_not_found")
        assert (error["param"], error["type"]) == ("model", "invalid_request_error")
    for path in ("/v1/models/org/tiny", "/models/org/tiny"):
        assert (await read(gateway, path, some)).json["id"] == "org/tiny"
        assert (await read(gateway, path, None)).status == 401


@APIS
@pytest.mark.usefixtures("models")
async def test_an_unknown_model_is_answered_with_the_models_of_the_key(gateway, api):
    [key] = add(gateway, some={"models": NAMES[:2]})
    response = await gateway.ask(body_of(api, model="tinny"), path=PATHS[api], key=key)
    assert response.status == 404
    assert response.json["error"]["message"] == (
        "The model 'tinny' does not exist, or this API key may not use it. Did you mean 'tiny'? "
        "The models are 'org/tiny', 'tiny'."
    )


async def test_guessed_keys_are_limited_and_valid_keys_are_not(backend, monkeypatch):
    async with own_route(backend, monkeypatch, wrong_keys_per_minute=3) as gateway:
        [key] = add(gateway, valid={})
        guesses = [await read(gateway, "/v1/models", f"sk-guess-{at}") for at in range(5)]
        assert [each.status for each in guesses] == [401, 401, 401, 429, 429]
        assert int(guesses[-1].headers[b"retry-after"]) >= 1
        assert guesses[-1].json["error"]["code"] == "too_many_wrong_keys"
        assert (await read(gateway, "/v1/models", key)).status == 200


async def test_a_setting_opens_a_route_and_the_routes_below_it(backend, monkeypatch):
    opened = ("/redoc", "/.well-known")
    async with own_route(backend, monkeypatch, open_routes=opened) as gateway:
        for path in ("/redoc", "/.well-known/litellm-ui-config"):
            assert (await read(gateway, path, None)).status == 299
        for path in ("/docs", "/redocs", "/public/model_hub", "/v1/models"):
            assert (await read(gateway, path, None)).status == 401
        assert len(gateway.host.passed) == len(opened)


@pytest.mark.parametrize("stream", [False, True])
async def test_tags_that_match_no_deployment_are_not_an_invalid_key(gateway, monkeypatch, stream):
    use(monkeypatch, ours(gateway.backend, tags=["gold"]), enable_tag_filtering=True)
    gateway.configure(keepalive_seconds=0)
    gold, lead = add(gateway, **{tag: {"tags": (tag,)} for tag in ("gold", "lead")})
    assert (await gateway.ask(body_of("chat", stream=stream), key=gold)).status == 200
    refused = await gateway.ask(body_of("chat", stream=stream), key=lead)
    error = refused.json["error"]
    assert (refused.status, error["code"]) == (403, "permission_denied")
    assert "tags" in error["message"]
    assert "lead" not in error["message"]


async def test_a_stream_of_litellms_route_is_kept_alive(gateway, monkeypatch):
    use(monkeypatch, foreign("tiny"))
    gateway.host.pause = 0.3
    response = await gateway.ask(body_of("chat", stream=True))
    assert response.bodies[0] == COMMENT
    assert b"".join(response.bodies).endswith(b"data: litellm\n\n")


PNG = "data:image/png;base64,iVBORw0KGgowMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMA=="
WHERE = "messages[0].content[1].image_url"


def asking(*urls: str, stream: bool = False) -> dict[str, Any]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    seen = {"role": "user", "content": [{"type": "text", "text": "see"}, *images]}
    return {
        "model": "tiny",
        "messages": [seen, {"role": "user", "content": "hi"}],
        "stream": stream,
    }


async def test_images_are_for_models_that_see(gateway):
    backend, (begin, _, rest) = gateway.backend, PNG.partition(",")
    gateway.configure(keepalive_seconds=0)
    for url in (PNG, "http://169.254.169.254/"):
        for stream in (True, False):
            refused = await gateway.ask(asking(url, stream=stream))
            error = refused.json["error"]
            found = refused.status, error["param"], error["code"]
            assert found == (400, WHERE, "unsupported_parameter")
    assert not backend.requests
    info = backend.info
    backend.info = info.model_copy(update={"images": True})
    try:
        async with asyncio.timeout(30):  # until the gateway has asked what the backend is
            while (answer := await gateway.ask(asking(PNG))).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        hidden = await gateway.ask(asking("http://127.0.0.1:1/a.png"))
    finally:
        backend.info = info
    assert answer.text == "Hello there"
    image = backend.messages()[0]["content"][1]
    assert image == {"type": "image_url", "image_url": {"url": f"{begin},{rest}"}}
    assert (hidden.status, hidden.json["error"]["param"]) == (400, WHERE)
    assert "not public" in hidden.json["error"]["message"]


OWNERS = {"one": "x", "same": "x", "other": "y", "alone": None, "lonely": None}
"""Team of each key."""


async def salts_of(gateway: Gateway, api: str, **more: Any) -> dict[str, str | None]:
    """The salts of the backends' prefix caches, by owner. Metadata of the client's own does not
    change whose prompt it is."""
    metadata = {"user_api_key": "x", "user_api_key_team_id": "y"}
    more["metadata"] = metadata if api == "chat" else {"user_id": "u"}
    found = {}
    for owner in ("master", *OWNERS):
        key = MASTER if owner == "master" else f"sk-{owner}"
        response = await gateway.ask(body_of(api, **more), path=PATHS[api], key=key)
        assert response.status == 200, response.bodies
        found[owner] = gateway.backend.requests[-1].cache_salt
    return found


async def test_owners_of_keys_share_no_cached_prompts(gateway):
    add(gateway, **{owner: {"team": team} for owner, team in OWNERS.items()})
    first = await salts_of(gateway, "chat")
    salted = await salts_of(gateway, "chat", cache_salt="pepper")
    assert first["one"] == first["same"]
    assert salted["one"] == salted["same"]
    assert len({*first.values(), *salted.values()}) == 2 * len({*OWNERS, "master"} - {"same"})
    for salt in first.values():
        assert salt is not None
        assert len(salt) == 32
        assert set(salt) <= set("0123456789abcdef")
    for api in ("responses", "messages"):
        others = await salts_of(gateway, api)
        assert {name: others[name] for name in ("one", "same")} == dict.fromkeys(
            ("one", "same"), first["one"]
        )
        assert len({*others.values()}) == len(OWNERS)
        assert others["other"] != others["one"]
