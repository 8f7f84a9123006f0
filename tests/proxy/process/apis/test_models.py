"""The list of models and single models, for the master key and for virtual keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import openai
import pytest

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, Gateway, serving
from tests.support.servers.http_client import bearer, http_client, openai_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import make_key

MODELS = ["tiny", "org/tiny", "other"]


@pytest.fixture(scope="module")
def of_models(
    backend_of_session: FakeBackend,
    spare_redis: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    log = tmp_path_factory.mktemp("models") / "log"
    arguments = [part for name in MODELS for part in ("--model", f"{name}=tiny")]
    with serving(arguments, backend_of_session.url, log, spare_redis.url) as gateway:
        yield gateway


async def test_key_lists_and_retrieves_only_its_models(
    of_models: Gateway, spare_redis: RedisServer
) -> None:
    allowed = ["tiny", "org/tiny"]
    sent, _ = await make_key(spare_redis.url, of_models.url, models=tuple(allowed))
    async with openai_client(of_models.url, sent) as client:
        listed = [model async for model in client.models.list()]
        assert sorted(model.id for model in listed) == sorted(allowed)
        assert [await client.models.retrieve(model.id) for model in listed] == listed
        for name in ("other", "unknown", "org/unknown", "tiny/", "*"):
            with pytest.raises(openai.NotFoundError) as failure:
                await client.models.retrieve(name)
            assert failure.value.code == "model_not_found"
            assert (failure.value.param, failure.value.type) == ("model", "invalid_request_error")


async def test_models_have_an_owner_and_a_context_length(of_models: Gateway) -> None:
    async with http_client(of_models.url, headers=bearer(MASTER_KEY)) as http:
        assert await becomes_ready(http, "/toolgate/ready")
        assert await becomes_ready(http, "/health/readiness")
        listed = (await http.get("/v1/models")).json()
        with_query = (await http.get("/v1/models?include_metadata=false")).json()
    assert listed["object"] == "list"
    assert {each["id"] for each in listed["data"]} == {each["id"] for each in with_query["data"]}
    for model in listed["data"]:
        assert (model["object"], model["owned_by"]) == ("model", "toolgate")
        assert model["created"] > 1_760_000_000
        assert model["max_model_len"] > 0


async def becomes_ready(http: httpx.AsyncClient, path: str) -> bool:
    for _ in range(100):
        if (await http.get(path)).status_code == 200:
            return True
        await asyncio.sleep(0.1)
    return False


HELLO = [{"role": "user", "content": "Hi."}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": HELLO}),
        ("/v1/responses", {"input": "Hi."}),
        ("/v1/messages", {"messages": HELLO, "max_tokens": 5}),
    ],
)
async def test_an_unknown_model_is_answered_with_the_models_of_the_key(
    of_models: Gateway, spare_redis: RedisServer, path: str, body: dict[str, object]
) -> None:
    sent, _ = await make_key(spare_redis.url, of_models.url, models=("tiny", "org/tiny"))
    async with http_client(of_models.url, headers=bearer(sent)) as http:
        response: httpx.Response = await http.post(path, json={"model": "tinny", **body})
        assert response.status_code == 404, response.text
        message = response.json()["error"]["message"]
    assert message == (
        "The model 'tinny' does not exist, or this API key may not use it. Did you mean 'tiny'? "
        "The models are 'org/tiny', 'tiny'."
    )


@pytest.mark.parametrize("master", [True, False])
async def test_unrestricted_key_retrieves_every_model(
    of_models: Gateway, spare_redis: RedisServer, master: bool
) -> None:
    sent = MASTER_KEY if master else (await make_key(spare_redis.url, of_models.url))[0]
    async with openai_client(of_models.url, sent) as client:
        assert sorted([model.id async for model in client.models.list()]) == sorted(MODELS)
        assert [(await client.models.retrieve(name)).id for name in MODELS] == MODELS


async def test_model_is_retrieved_by_every_spelling_of_its_path(
    of_models: Gateway, spare_redis: RedisServer
) -> None:
    sent, _ = await make_key(spare_redis.url, of_models.url, models=("org/tiny",))
    async with http_client(of_models.url, headers=bearer(sent)) as http:
        for path in ("/v1/models/org/tiny", "/models/org/tiny", "/v1/models/org%2Ftiny"):
            response: httpx.Response = await http.get(path)
            assert (response.status_code, response.json()["id"]) == (200, "org/tiny")
    async with http_client(of_models.url) as stranger:
        assert (await stranger.get("/v1/models/org/tiny")).status_code == 401
