"""The prefix cache: what `cached_tokens` shows an owner of a key, and prompts that grow only at
their end while tools are found."""

import uuid

import httpx
import pytest

from tests import tools
from tests.support.apis.found_tools import FORMS, bodies
from tests.support.effort import rotating
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer
from tests.support.servers.virtual_keys import key_file

from . import kit

TEAMS = {"one": "x", "same": "x", "other": "y", "alone": None}
BLOCK = 128
"""Tokens of a block of the cache."""
TURNS = 20
SYSTEM = "word " * 2_500


class Clients:
    """Clients of one gateway, by the alias of their key."""

    def __init__(self, url, keys):
        self._url = url
        self._keys = keys

    def cached(self, alias, prompt, **params):
        """Cached tokens of a prompt that is new to the backend from its first token on."""
        body = {"model": "tiny", "max_tokens": 4, "tools": tools.ALL, **params}
        body["messages"] = [
            {"role": "system", "content": prompt + "word " * (4 * BLOCK)},
            {"role": "user", "content": "hi"},
        ]
        headers = bearer(self._keys[alias])
        url = f"{self._url}{kit.CHAT}"
        answer = httpx.post(url, json=body, headers=headers, timeout=60, verify=False)
        assert answer.status_code == 200, answer.text
        details = answer.json()["usage"]["prompt_tokens_details"]
        return int(details["cached_tokens"] or 0)


@pytest.fixture(scope="module", params=["owner", pytest.param("shared", marks=pytest.mark.slow)])
def shared_by(request, stack, tmp_path_factory):
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


def test_cached_tokens_show_an_owner_only_its_own_prompts(shared_by):
    shared, clients = shared_by
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


@rotating("form", FORMS, one_in=2)
def test_prompts_are_cached_while_tools_are_found(http, model, form):
    prompts, cached = [], []
    api, system = FORMS[form].api, f"{form} {uuid.uuid4().hex} {SYSTEM}"
    for body in bodies(FORMS[form], system, TURNS):
        [reply] = kit.ask(http, {"model": model, **body}, api=api)
        assert reply.answer.usage is not None
        prompts.append(reply.answer.usage.prompt)
        cached.append(reply.answer.usage.cached or 0)
    assert prompts == sorted(prompts)
    for before, hit in zip(prompts, cached[1:], strict=False):
        assert hit > before - BLOCK, [*zip(prompts, cached, strict=True)]
    assert sum(cached[1:]) >= 0.95 * sum(prompts[1:])
