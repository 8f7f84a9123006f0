"""A scripted backend for the whole session. Settings and a Redis server for each test."""

from importlib.util import find_spec

import pytest

from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.redis_server import redis_server
from toolgate_proxy.settings import settings

WITH_BACKEND = "api/test_same_request.py", "chat/test_new_grammars.py", "chat/test_replicas.py"
collect_ignore = WITH_BACKEND if find_spec("vllm") is None else ()


@pytest.fixture(autouse=True)
def fresh_settings():
    """A test reads the settings from the environment that it makes."""
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture(scope="session")
def backend_of_session():
    with running(FakeBackend()) as backend:
        yield backend


@pytest.fixture
def backend(backend_of_session):
    """The session's backend without scripts and records of earlier tests."""
    backend_of_session.clear()
    return backend_of_session


@pytest.fixture
def redis_at_hand():
    """A Redis server that the test may stop. It starts in 0.1 s."""
    with redis_server() as server:
        yield server
