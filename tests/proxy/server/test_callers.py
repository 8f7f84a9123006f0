"""What callers see, share and may open: models and their context lengths under each name that
clients know, the probes of load balancers, prompts in caches, guesses of keys, open routes."""

import asyncio
import logging
import socket

import pytest

from tests.proxy.server.kit import APIS, STREAM
from tests.support.litellm.own_route import MASTER, PATHS, body_of, ours
from tests.support.litellm.own_route_process import own_route
from tests.support.litellm.router import foreign, row, use
from tests.support.servers.fake_backend import KEY, FakeBackend
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.litellm_host.routing.router import placement_of, placements
from toolgate_proxy.server import probes

NAMES = ("tiny", "org/tiny", "other")


async def read(gateway, path, key=MASTER, headers=()):
    return await gateway.ask({}, path=path, method="GET", key=key, headers=headers)


def add(gateway, **keys):
    """Keys with these terms, by name; no others."""
    made = {f"sk-{name}": terms for name, terms in keys.items()}
    listed = [key_of(sent, **terms) for sent, terms in made.items()]
    gateway.here.key_sync.key_cache.replace([], listed)
    return [*made]


@pytest.fixture
def models(gateway, monkeypatch):
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


@STREAM
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


PNG = "data:image/png;base64,iVBORw0KGgowMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMA=="
WHERE = "messages[0].content[1].image_url"


def asking(url, *, stream=False):
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
    messages = [{"role": "user", "content": parts}, {"role": "user", "content": "hi"}]
    return {"model": "tiny", "messages": messages, "stream": stream}


@pytest.mark.exhaustive
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


async def salts_of(gateway, api, **more):
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
        assert len(salt) == 32
        assert set(salt) <= set("0123456789abcdef")
    for api in ("responses", "messages"):
        others = await salts_of(gateway, api)
        assert others["one"] == others["same"] == first["one"] != others["other"]
        assert len({*others.values()}) == len(OWNERS)


# --- context lengths of models --------------------------------------------------------------------

ANTHROPIC = [(b"anthropic-version", b"2023-06-01")]
LENGTHS = ("max_model_len", "context_length", "context_window", "max_input_tokens")
"""Names of vLLM, OpenRouter, Groq and LiteLLM."""
NOBODY = "http://127.0.0.1:9"
MODELS, TINY = "/v1/models", "/v1/models/tiny"


@pytest.fixture(params=[(32_768, 4_096), (1_000_000, 32_000)], ids=["small", "large"])
def window(request, backend, monkeypatch):
    """The context length of the backend, and what clients reserve for the response."""
    monkeypatch.setattr(backend, "info", with_context(backend.info, request.param[0]))
    return request.param


def with_context(info, context):
    limits = info.limits.model_copy(update={"max_model_len": context})
    return info.model_copy(update={"limits": limits})


async def listed(gateway, path=MODELS, *, anthropic=False):
    response = await read(gateway, path, headers=[*ANTHROPIC] if anthropic else [])
    assert response.status == 200, response.bodies
    return response.json


def entry(shown, name="tiny"):
    """The model in a list or by itself."""
    [found] = [each for each in shown.get("data", [shown]) if each["id"] == name]
    return dict(found)


async def test_models_have_the_context_length_of_their_backend(gateway, window):
    """The backend is asked for it, unless it is down."""
    context, output = window
    shown = await listed(gateway, TINY)
    assert {name: shown[name] for name in LENGTHS} == dict.fromkeys(LENGTHS, context)
    assert shown["max_output_tokens"] == output
    assert await listed(gateway) == {"object": "list", "data": [shown]}
    shown = await listed(gateway, TINY, anthropic=True)
    assert (shown["max_input_tokens"], shown["max_tokens"]) == window
    assert (await listed(gateway, anthropic=True))["data"] == [shown]


async def test_a_backend_that_is_down_is_not_asked(gateway):
    [place] = placements("tiny")
    gateway.here.deployments.at(place).state.note_failure("x", at_once=True)
    assert "max_model_len" not in entry(await listed(gateway))


@pytest.mark.exhaustive
@pytest.mark.parametrize("hangs", [False, True])
async def test_a_length_that_is_not_known_is_not_shown(gateway, monkeypatch, hangs):
    """Of backends that have not responded, and of other providers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = f"http://127.0.0.1:{listener.getsockname()[1]}" if hangs else NOBODY
        use(monkeypatch, row("a", api_base=silent, api_key=KEY), foreign("other"))
        for path, name in ((TINY, "tiny"), (f"{MODELS}/other", "other"), (MODELS, "tiny")):
            shown = entry(await listed(gateway, path), name)
            assert not {*LENGTHS, "max_output_tokens"} & shown.keys()
            shown = entry(await listed(gateway, path, anthropic=True), name)
            assert (shown["max_input_tokens"], shown["max_tokens"]) == (None, None)


async def test_a_declared_length_is_shown_until_a_backend_has_responded(
    gateway, monkeypatch, window
):
    for url, shown in ((NOBODY, (65_536, 8_192)), (gateway.backend.url, window)):
        declared = {"max_input_tokens": 65_536}
        use(monkeypatch, row("a", api_base=url, api_key=KEY, info=declared))
        found = entry(await listed(gateway, TINY))
        assert (found["max_model_len"], found["max_output_tokens"]) == shown


async def test_the_smallest_backend_of_a_model_decides(gateway, monkeypatch):
    use(monkeypatch, ours(gateway.backend), row("b", api_base=NOBODY, api_key=KEY))
    info = gateway.backend.info
    contexts = (with_context(info, 32_768), with_context(info, 8_192))
    for place, each in zip(placements("tiny"), contexts, strict=True):
        gateway.here.deployments.at(place).backend.last_info = each
    assert (await listed(gateway, TINY))["max_model_len"] == 8_192


# --- probes ---------------------------------------------------------------------------------------

READY, LITELLM = "/toolgate/ready", "/health/readiness"


async def probe(gateway, path=READY):
    return await read(gateway, path, None)


def state_of(gateway, row):
    return gateway.here.deployments.at(placement_of(row)).state


def other(group):
    """A model with a backend that does not exist."""
    unused = FakeBackend()
    unused.url = f"http://{group}.invalid"
    return ours(unused, group)


@pytest.mark.parametrize("path", [READY, LITELLM])
async def test_a_gateway_is_ready_once_one_model_has_had_a_backend(gateway, monkeypatch, path):
    """One that fails later leaves the other models to the gateway."""
    row = ours(gateway.backend)
    use(monkeypatch, row, other("broken"), other("loading"))
    waiting = await probe(gateway, path)
    assert (waiting.status, waiting.json["status"]) == (503, "not ready")
    assert "All 3 models have no backend" in waiting.json["reason"]
    assert int(waiting.headers[b"retry-after"]) > 0
    assert not gateway.host.passed
    state = state_of(gateway, row)
    for note in (lambda: state.note_success(0.001), lambda: state.note_failure("x", at_once=True)):
        note()
        ready = await probe(gateway, path)
        if path == READY:
            assert (ready.status, ready.json) == (200, {"status": "ready"})
        else:
            assert (ready.status, gateway.host.passed.pop().path) == (299, LITELLM)


async def test_readiness_without_a_model_of_ours(gateway, monkeypatch):
    """A model of another provider is ready, and a database may get some. But the gateway waits for
    the first response of Redis."""
    for database, status in ((True, 200), (False, 503)):
        use(monkeypatch)
        monkeypatch.setattr(probes, "has_database", lambda database=database: database)
        assert (await probe(gateway)).status == status
    use(monkeypatch, ours(gateway.backend), foreign("hosted"))
    for reached, status in ((False, 503), (True, 200)):
        monkeypatch.setattr(Limiter, "reached_redis", reached)
        response = await probe(gateway)
        assert (response.status, "Redis" in str(response.json)) == (status, not reached)


async def test_a_model_is_ready_while_its_backend_responds(gateway, monkeypatch):
    row = ours(gateway.backend, "org/tiny")
    use(monkeypatch, row, foreign("hosted"))
    path, state = f"{READY}/org/tiny", state_of(gateway, row)
    waiting = await probe(gateway, path)
    assert waiting.status == 503
    assert waiting.json["reason"] == "No backend of the model 'org/tiny' responds."
    state.note_success(0.001)
    assert (await probe(gateway, path)).json == {"status": "ready"}
    state.note_failure("gone", at_once=True)
    assert (await probe(gateway, path)).status == 503
    assert (await probe(gateway, f"{READY}/hosted")).status == 200
    unknown = await probe(gateway, f"{READY}/none-such")
    assert (unknown.status, unknown.json["error"]["code"]) == (404, "model_not_found")


async def test_models_without_a_backend_are_logged_once(gateway, monkeypatch, caplog):
    row = ours(gateway.backend)
    use(monkeypatch, row, other("broken"))
    with caplog.at_level(logging.WARNING):
        for names in ("'broken', 'tiny'", "'broken'"):
            for _ in range(3):
                await probe(gateway)
            line = f"No backend has responded yet for these models: {names}."
            assert [record.getMessage() for record in caplog.records] == [line]
            caplog.clear()
            state_of(gateway, row).note_success(0.001)
