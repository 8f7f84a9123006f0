"""Keys that own stored data, and those that may use it."""

from __future__ import annotations

from tests.support.litellm.own_route import MASTER, Gateway
from tests.support.servers.virtual_keys import key_of

TEAMS = {"one": None, "other": None, "member": "a", "mate": "a", "rival": "b"}
FRIENDS = {"one": ["one"], "member": ["member", "mate"], "admin": ["admin"]}
"""By owner: who has access to its data."""


def keys_of_owners(gateway: Gateway) -> dict[str, str]:
    """Create the keys. Return them by name, with the master key as `admin`."""
    assert gateway.here.key_sync is not None
    keys = {name: f"sk-a-key-of-{name}-000001" for name in TEAMS}
    made = [key_of(keys[name], name, team=team) for name, team in TEAMS.items()]
    gateway.here.key_sync.key_cache.replace(made)
    return {**keys, "admin": MASTER}
