"""Prewarming of deployments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.grammars.prewarm_tools import entry
from tests.support.servers.fake_backend import INFO, KEY, FakeBackend, running
from tests.support.servers.fleet import SECRET, gateway, tool, tools
from tests.support.servers.redis_server import RedisServer
from toolgate_core.tools import content_format
from toolgate_proxy.admin.prewarm import prewarm, prewarm_most_used
from toolgate_proxy.routing.deployments import Deployments
from toolgate_proxy.settings import Settings


@pytest.fixture
def other_backend() -> Iterator[FakeBackend]:
    with running(FakeBackend()) as backend:
        yield backend


def statuses(report: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {each["name"]: (each["status"], each.get("code")) for each in report["tools"]}


async def test_prewarm_refuses_schemas_over_the_limits(backend: FakeBackend) -> None:
    place = Deployments(Settings()).get(backend.url, KEY)
    wide = entry("wide", properties={f"a{at}": {} for at in range(5_001)})
    (report,) = await prewarm([place], [wide], Settings())
    assert statuses(report.model_dump()) == {"wide": ("refused", "schema_too_complex")}
    assert not backend.loads


async def test_most_used_grammars_are_loaded_into_matching_backends(
    backend: FakeBackend, other_backend: FakeBackend, redis_at_hand: RedisServer
) -> None:
    used = (*tools(40, "used"), tool("heavy_used"))
    async with gateway(backend.url, redis_at_hand.url) as first:
        await first.ask(*used)
    deployments = Deployments(
        Settings(redis_url=SecretStr(redis_at_hand.url), fleet_secret=SecretStr(SECRET))
    )
    assert deployments.shared_cache is not None
    await deployments.shared_cache.wait_until_connected()
    await prewarm_most_used(
        [deployments.get(other_backend.url, KEY)], deployments.shared_cache, 100
    )
    assert len(other_backend.loaded) == 32, "at most half of max_grammars"
    assert all(source.examined for source in other_backend.sources)
    other_backend.forget()
    other_backend.info = INFO.model_copy(update={"tokenizer": "another"})
    stranger = Deployments(
        Settings(redis_url=SecretStr(redis_at_hand.url), fleet_secret=SecretStr(SECRET))
    )
    await prewarm_most_used([stranger.get(other_backend.url, KEY)], deployments.shared_cache, 100)
    assert not other_backend.loaded, "compiled for another tokenizer"
    await deployments.shared_cache.aclose()


async def test_content_formats_are_prewarmed_like_tools(
    backend: FakeBackend, other_backend: FakeBackend, redis_at_hand: RedisServer
) -> None:
    form = content_format({"type": "object", "properties": {"a": {}}}, param="response_format")
    async with gateway(backend.url, redis_at_hand.url) as first:
        await first.ask(form, tool("beside"))
    shared = Settings(redis_url=SecretStr(redis_at_hand.url), fleet_secret=SecretStr(SECRET))
    deployments = Deployments(shared)
    assert deployments.shared_cache is not None
    await deployments.shared_cache.wait_until_connected()
    await prewarm_most_used(
        [deployments.get(other_backend.url, KEY)], deployments.shared_cache, 100
    )
    assert {source.name for source in other_backend.sources} == {"", "beside"}
    await deployments.shared_cache.aclose()
