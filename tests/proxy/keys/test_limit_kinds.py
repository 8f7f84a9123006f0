"""Every kind of limit, from the command line to the error of a refused request."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import HASHER, key_of, store
from toolgate_core.errors import RateLimited
from toolgate_proxy.cli.keys.stored_keys import of_keys
from toolgate_proxy.cli.main import app
from toolgate_proxy.keys.file_store import read_keys
from toolgate_proxy.keys.key import new_key, now
from toolgate_proxy.keys.limit_kinds import KINDS, LimitKind, Tokens
from toolgate_proxy.keys.redis_store import KeyUsage
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.settings import Settings

EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@pytest.mark.parametrize("field", ["name", "counter", "label", "header", "flag", "column"])
def test_the_names_of_kinds_differ(field: str) -> None:
    assert len({getattr(kind, field) for kind in KINDS}) == len(KINDS)


def test_requests_in_flight_are_counted_only_for_keys_with_a_limit() -> None:
    """Other keys have no leases that their gateway would renew."""
    assert {k.counted_for for k in KINDS if k.window.type == "in_flight"} == {
        "keys with this limit"
    }


@EACH_KIND
def test_the_command_line_sets_a_limit(
    kind: LimitKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGATE_KEY_SECRET", KEY_SECRET)
    created = CliRunner().invoke(app, ["keys", "create", "a", kind.flag, "7", "--yaml"])
    assert created.exit_code == 0, created.output
    path = tmp_path / "keys.yaml"
    path.write_text(f"keys:\n{created.stdout}")
    [key] = read_keys(path, HASHER)
    assert {each.name: key.limits.of(each) for each in KINDS if key.limits.of(each)} == {
        kind.name: 7
    }
    assert key.shown(now())[kind.name] == 7
    assert f"{kind.column} 7" in of_keys([(key, KeyUsage())], now())


@EACH_KIND
async def test_a_limit_is_in_the_headers_and_refuses(
    kind: LimitKind, redis_at_hand: RedisServer
) -> None:
    limiter = Limiter(Settings(redis_url=SecretStr(redis_at_hand.url)))
    await limiter.started()
    tokens = Tokens(3, 2, 1)
    limit = kind.unit.amount(tokens)
    key = key_of(new_key(), "search", **{kind.name: limit})
    admission = await limiter.admit(key, "r1", tokens, lambda: tokens)
    names = {f"x-ratelimit-{field}-{kind.header}" for field in ("limit", "remaining", "reset")}
    assert admission.headers[f"x-ratelimit-limit-{kind.header}"] == str(limit)
    assert admission.headers[f"x-ratelimit-remaining-{kind.header}"] == "0"
    assert admission.headers.keys() <= names
    with pytest.raises(RateLimited) as refused:
        await limiter.admit(key, "r2", tokens, lambda: tokens)
    assert type(refused.value) is kind.error
    assert f"'search' has reached its limit of {limit} {kind.title}" in refused.value.message
    assert refused.value.retry_after
    with pytest.raises(RateLimited, match="Try again" if limit == 1 else "needs up to"):
        await limiter.admit(key, "r3", Tokens(90, 90, 1), lambda: tokens)
    await limiter.reservations.close(admission.reservation)
    keys = store(redis_at_hand.url)
    if kind.usage_field is not None:
        usage = await keys.usage(key, now())
        assert usage.today[kind.usage_field] == limit
        assert usage.last_used is not None
        assert abs((now() - usage.last_used).total_seconds()) < 600
    await keys.aclose()
    await limiter.aclose()


@EACH_KIND
async def test_unused_reservations_are_returned(
    kind: LimitKind, redis_at_hand: RedisServer
) -> None:
    limiter = Limiter(Settings(redis_url=SecretStr(redis_at_hand.url)))
    await limiter.started()
    key = key_of(new_key(), **{kind.name: 100})
    for at in range(2):
        admission = await limiter.admit(key, f"r{at}", Tokens(30, 30), lambda: Tokens(10, 5))
        remaining = admission.headers[f"x-ratelimit-remaining-{kind.header}"]
        used = 0 if kind.window.type == "in_flight" else at * kind.unit.amount(Tokens(10, 5))
        assert int(remaining) == 100 - used - kind.unit.amount(Tokens(30, 30))
        await limiter.reservations.close(admission.reservation)
    await limiter.aclose()
