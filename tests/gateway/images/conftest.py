"""A vision model behind a gateway for all tests of this folder, and a server of images."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.support.servers.gateway_process import MASTER_KEY, Gateway
from tests.support.servers.http_client import bearer

from .pictures import picture
from .vision import ImageServer, image_server, vision_gateway

Vision = tuple[Gateway, dict[str, str]]


@pytest.fixture(scope="package")
def vision(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vision]:
    """The gateway, and the key of each team."""
    with vision_gateway(tmp_path_factory.mktemp("vision")) as made:
        yield made


@pytest.fixture(scope="package")
def http(vision: Vision) -> Iterator[httpx.Client]:
    with _client(vision[0], MASTER_KEY) as http:
        yield http


@pytest.fixture(scope="package")
def teams(vision: Vision) -> Iterator[dict[str, httpx.Client]]:
    """A client with the key of each team."""
    gateway, keys = vision
    with ExitStack() as clients:
        yield {team: clients.enter_context(_client(gateway, key)) for team, key in keys.items()}


def _client(gateway: Gateway, key: str) -> httpx.Client:
    return httpx.Client(base_url=gateway.url, headers=bearer(key), timeout=300, verify=False)


@pytest.fixture(scope="package")
def images() -> Iterator[ImageServer]:
    with image_server({"red.png": picture("red"), "text": b"no image"}) as server:
        yield server
