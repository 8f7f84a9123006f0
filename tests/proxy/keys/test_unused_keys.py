"""The warning about keys in Redis that are not accepted."""

from __future__ import annotations

import logging

import pytest
from pydantic import SecretStr

from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import key_of, put
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.keys.redis_store import UNUSED, warn_of_unused_keys
from toolgate_proxy.settings import Settings
from toolgate_proxy.stack.processes import free_port


async def test_keys_without_their_secret_are_reported(
    redis_at_hand: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = SecretStr(redis_at_hand.url)
    await warn_of_unused_keys(Settings(redis_url=url))
    assert not caplog.records
    await put(redis_at_hand.url, key_of(new_key()))
    await warn_of_unused_keys(Settings(redis_url=url, key_secret=SecretStr("x")))
    await warn_of_unused_keys(Settings())
    assert not caplog.records
    await warn_of_unused_keys(Settings(redis_url=url))
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.WARNING, UNUSED)
    ]


async def test_a_redis_that_does_not_respond_is_not_reported_here(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = SecretStr(f"redis://127.0.0.1:{free_port()}")
    await warn_of_unused_keys(Settings(redis_url=url))
    assert not caplog.records
