"""The number of WebSocket connections of one key."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.support.servers.virtual_keys import key_of
from toolgate_core.errors import RateLimited
from toolgate_proxy.keys.key import Key
from toolgate_proxy.limits.socket_limit import SocketLimit


@pytest.mark.parametrize(
    ("key", "most"),
    [
        (key_of("a"), 3),
        (key_of("a", max_parallel_requests=2), 2),
        (key_of("a", max_parallel_requests=50), 3),
        (key_of("a", rpm=1), 3),
    ],
)
def test_a_key_has_as_many_connections_as_its_limit(key: Key, most: int) -> None:
    limit = SocketLimit(3)
    for _ in range(2):  # closed ones no longer count
        with ExitStack() as stack:
            for _ in range(most):
                stack.enter_context(limit.connection(key))
            with pytest.raises(RateLimited, match=f"{most} open WebSocket"), limit.connection(key):
                pass
            stack.enter_context(limit.connection(key_of("b")))


def test_the_master_key_has_no_limit() -> None:
    limit = SocketLimit(1)
    with limit.connection(None), limit.connection(None):
        pass
