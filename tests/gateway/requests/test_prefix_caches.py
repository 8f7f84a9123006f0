"""Owners of API keys, and what `cached_tokens` shows of each other's prompts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests import tools
from tests.gateway.stack import Stack
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer
from tests.support.servers.virtual_keys import key_file

TEAMS = {"one": "x", "same": "x", "other": "y", "alone": None}
BLOCK = 128
"""Tokens of a block of the cache."""


class Clients:
    """Clients of one gateway, by the alias of their key."""

    def __init__(self, url: str, keys: dict[str, str]) -> None:
        self._url = url
        self._keys = keys

    def cached(self, alias: str, prompt: str, **params: Any) -> int:
        """Cached tokens of a prompt that is new to the backend from its first token on."""
        body = {"model": "tiny", "max_tokens": 4, "tools": tools.ALL, **params}
        body["messages"] = [
            {"role": "system", "content": prompt + "word " * (4 * BLOCK)},
            {"role": "user", "content": "hi"},
        ]
        headers = bearer(self._keys[alias])
        answer = httpx.post(
            f"{self._url}/v1/chat/completions", json=body, headers=headers, timeout=60, verify=False
        )
        assert answer.status_code == 200, answer.text
        details = answer.json()["usage"]["prompt_tokens_details"]
        return int(details["cached_tokens"] or 0)


@pytest.fixture(scope="module", params=["owner", "shared"])
def gateway(
    request: pytest.FixtureRequest, stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Clients]]:
    """A gateway in front of the first backend, and who shares a cache there."""
    folder = tmp_path_factory.mktemp("caches")
    keys = key_file(folder / "keys.yaml", **TEAMS) | {"master": MASTER_KEY}
    more = {
        "TOOLGATE_BACKEND_KEY": stack.backend_key,
        "TOOLGATE_KEYS_FILE": str(folder / "keys.yaml"),
        "TOOLGATE_PREFIX_CACHE": request.param,
    }
    arguments = ["--model", f"tiny=tiny@{stack.backend_url}"]
    with serving(arguments, stack.backend_url, folder / "log", **more) as running:
        yield request.param, Clients(running.url, keys)


def test_cached_tokens_show_an_owner_only_its_own_prompts(gateway: tuple[str, Clients]) -> None:
    shared, clients = gateway
    prompt = f"{uuid.uuid4().hex} "
    start = clients.cached("one", prompt)
    full = clients.cached("one", prompt)
    assert full >= start + BLOCK
    assert clients.cached("same", prompt) == full
    for alias in ("other", "alone", "master"):
        first = clients.cached(alias, prompt)
        if shared == "shared":
            assert first == full
        else:
            assert first <= start
            assert clients.cached(alias, prompt) == full
    assert clients.cached("one", prompt, cache_salt="pepper") < full
    assert clients.cached("other", prompt, cache_salt="pepper") < full or shared == "shared"
