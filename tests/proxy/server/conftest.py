"""The gateway's own route in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.litellm.mcp import shop
from tests.support.litellm.own_route import Gateway
from tests.support.litellm.own_route_process import own_route
from tests.support.servers.fake_backend import FakeBackend


@pytest.fixture
async def gateway(backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    async with own_route(backend, monkeypatch) as made:
        yield made


@pytest.fixture
async def calls(tmp_path: Path) -> AsyncIterator[Path]:
    """LiteLLM has the MCP server `shop`: the file of the calls that it ran."""
    async with shop(tmp_path / "calls"):
        yield tmp_path / "calls"
