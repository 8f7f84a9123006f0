"""Salts of the backends' prefix caches, by the owner of a request."""

from __future__ import annotations

import pytest

from toolgate_core.chat_request import ChatRequest
from toolgate_proxy.routing.cache_salts import CacheSalts
from toolgate_proxy.sealing import Sealer

OWN, SAME, OTHER = (
    CacheSalts(Sealer(secret), shared=False) for secret in (b"s" * 32, b"s" * 32, b"t" * 32)
)
SHARED = CacheSalts(Sealer(b"s" * 32), shared=True)


def salt(salts: CacheSalts, owner: str, sent: str | None = None) -> str | None:
    request = ChatRequest("id", "tiny", (), cache_salt=sent)
    return salts.salted(request, owner).cache_salt


def test_salts_are_the_same_at_all_gateways_with_one_secret() -> None:
    assert salt(OWN, "team a") == salt(SAME, "team a") != salt(OTHER, "team a")


def test_owners_and_their_own_salts_have_different_salts() -> None:
    made = {salt(OWN, owner, sent) for owner in ("team a", "team b") for sent in (None, "x", "y")}
    assert len(made) == 6
    assert not any("team" in str(each) for each in made)


@pytest.mark.parametrize("sent", [None, "pepper"])
def test_shared_caches_have_the_salts_of_clients(sent: str | None) -> None:
    assert salt(SHARED, "team a", sent) == sent
