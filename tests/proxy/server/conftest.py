"""The gateway's own route in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.litellm.own_route import Gateway
from tests.support.litellm.own_route_process import own_route
from tests.support.servers.fake_backend import FakeBackend


@pytest.fixture
async def gateway(backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    async with own_route(backend, monkeypatch) as made:
        yield made
