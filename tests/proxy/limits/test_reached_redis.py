"""Whether the counters of limits have been reached, for the readiness of a gateway."""

from __future__ import annotations

from pydantic import SecretStr

from tests.support.servers.redis_server import redis_server
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.settings import Settings
from toolgate_proxy.stack.processes import free_port


def limiter(port: int, without_redis: str = "closed") -> Limiter:
    url = SecretStr(f"redis://127.0.0.1:{port}/0")
    return Limiter(Settings(redis_url=url, limits_without_redis=without_redis))  # type: ignore[arg-type]


async def test_redis_is_reached_once_it_has_responded() -> None:
    with redis_server() as server:
        reached = Limiter(Settings(redis_url=SecretStr(server.url)))
        assert not reached.reached_redis
        await reached.started()
        assert reached.reached_redis
    assert reached.reached_redis
    await reached.aclose()


async def test_redis_that_never_responded_is_not_reached() -> None:
    unreachable = limiter(free_port())
    await unreachable.started()
    assert not unreachable.reached_redis
    await unreachable.aclose()


def test_redis_that_is_not_required_counts_as_reached() -> None:
    assert limiter(free_port(), "open").reached_redis
    assert Limiter(Settings(redis_url=None)).reached_redis
