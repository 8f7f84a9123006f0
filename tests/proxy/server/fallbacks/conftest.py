"""The model `tiny` fails, and falls back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.litellm.fallbacks import BROKEN, configure
from tests.support.litellm.own_route import Gateway
from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.script import Script


@pytest.fixture(scope="session")
def large_of_session() -> Iterator[FakeBackend]:
    with running(FakeBackend()) as backend:
        yield backend


@pytest.fixture
def large(
    gateway: Gateway, large_of_session: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> FakeBackend:
    """The backend of the model `large`, to which `tiny` falls back. No comment begins a stream."""
    gateway.configure(keepalive_seconds=0)
    large_of_session.clear()
    large_of_session.scripts["hi"] = Script(("From the large one",))
    gateway.backend.scripts["hi"] = BROKEN
    configure(gateway, large_of_session, monkeypatch, fallbacks=[{"tiny": ["large"]}])
    return large_of_session


@pytest.fixture
def hosted(gateway: Gateway, large: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    configure(gateway, large, monkeypatch, fallbacks=[{"tiny": ["hosted", "large"]}])
    return large
