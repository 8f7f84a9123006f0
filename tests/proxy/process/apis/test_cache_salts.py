"""Owners of API keys share no cached prompts: the salts of the backends' prefix caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.proxy.process.conftest import Deployed
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key

OWNERS = {"one": "x", "same": "x", "other": "y", "alone": None, "lonely": None}
"""Team of each key."""
PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
}


async def salts_at(
    deployed: Deployed, paths: Iterable[str] = PATHS
) -> dict[str, dict[str, str | None]]:
    """The salts that the backend gets: by path and alias, `master` and with a salt of a client."""
    backend: FakeBackend = deployed.backend
    backend.clear()
    backend.scripts["hi"] = Script(("Hello there",))
    url, found = deployed.gateway.url, {}
    keys = {"master": MASTER_KEY}
    for alias, team in OWNERS.items():
        more = {} if team is None else {"team": team}
        keys[alias], _ = await make_key(deployed.redis.url, url, alias=f"salt-{alias}", **more)
    async with http_client(url, timeout=30) as http:
        for path in paths:
            found[path] = dict[str, str | None]()
            for alias, key in keys.items():
                for name, salt in ((alias, {}), (f"{alias} salted", {"cache_salt": "pepper"})):
                    sent = {"model": "tiny", **PATHS[path], **salt}
                    # Metadata of the client's own does not change whose prompt it is.
                    sent["metadata"] = {"user_id": "u"}
                    if path == "/v1/chat/completions":
                        sent["metadata"] = {"user_api_key": "x", "user_api_key_team_id": "y"}
                    headers = bearer(key)
                    response = await http.post(path, json=sent, headers=headers)
                    assert response.status_code == 200, response.text
                    found[path][name] = backend.requests[-1].cache_salt
    return found


async def test_each_owner_has_a_salt_of_its_own_at_all_gateways_and_apis(
    deployed_on: Callable[[str], Deployed],
) -> None:
    own = await salts_at(deployed_on("own"))
    first = own["/v1/chat/completions"]
    assert all(salts.keys() == first.keys() for salts in own.values())
    assert own["/v1/messages"]["master"] == first["master"]
    for path, salts in own.items():
        assert salts["one"] == salts["same"] == first["one"], path
        assert salts["one salted"] == salts["same salted"] != salts["one"]
    assert len(set(first.values())) == 2 * len({*OWNERS, "master"} - {"same"})
    for salt in first.values():
        assert salt is not None
        assert len(salt) == 32
        assert set(salt) <= set("0123456789abcdef")
    (litellm,) = (await salts_at(deployed_on("litellm"), ["/v1/chat/completions"])).values()
    for name in ("one", "same", "other", "one salted", "other salted", "master"):
        assert litellm[name] == first[name], name
    assert litellm["alone"] != litellm["lonely"]
