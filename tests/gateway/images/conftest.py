"""A vision model behind a gateway for all tests of this folder, and a server of images."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import bearer

from .pictures import picture
from .vision import ImageServer, image_server, vision_gateway


@pytest.fixture(scope="package")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with vision_gateway(tmp_path_factory.mktemp("vision")) as gateway:
        headers = bearer(MASTER_KEY)
        with httpx.Client(base_url=gateway.url, headers=headers, timeout=300, verify=False) as http:
            yield http


@pytest.fixture(scope="package")
def images() -> Iterator[ImageServer]:
    with image_server({"red.png": picture("red"), "text": b"no image"}) as server:
        yield server
