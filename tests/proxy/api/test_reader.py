"""Salts of the backends' prefix caches, by the owner of a request."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_proxy.api.reader import RequestReader
from toolgate_proxy.api.responses.surface import Responses
from toolgate_proxy.api.surfaces import COMPLETIONS
from toolgate_proxy.context import RequestContext
from toolgate_proxy.sealing import Sealer
from toolgate_proxy.settings import Settings

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
OWN, SAME, OTHER = (
    RequestReader(Settings(prefix_cache="owner"), Sealer(secret))
    for secret in (b"s" * 32, b"s" * 32, b"t" * 32)
)
SHARED = RequestReader(Settings(prefix_cache="shared"), Sealer(b"s" * 32))


def salt(reader: RequestReader, owner: str, sent: str | None = None) -> str | None:
    body = BODY | {"cache_salt": sent}
    request = reader.read(COMPLETIONS, body, RequestContext(), model="tiny", owner=owner)
    return request.cache_salt


def test_salts_are_the_same_at_all_gateways_with_one_secret() -> None:
    assert salt(OWN, "team a") == salt(SAME, "team a") != salt(OTHER, "team a")


def test_owners_and_their_own_salts_have_different_salts() -> None:
    made = {salt(OWN, owner, sent) for owner in ("team a", "team b") for sent in (None, "x", "y")}
    assert len(made) == 6
    assert not any("team" in str(each) for each in made)


@pytest.mark.parametrize("sent", [None, "pepper"])
def test_shared_caches_have_the_salts_of_clients(sent: str | None) -> None:
    assert salt(SHARED, "team a", sent) == sent


def test_a_search_takes_the_place_of_the_tools_that_are_not_listed() -> None:
    reader = RequestReader(Settings(tool_search=1), Sealer(b"s" * 32))
    tools = [{"type": "function", "function": {"name": name}} for name in ("a", "b", "c")]
    sent = reader.searching(COMPLETIONS, {"tools": tools})["tools"]
    assert [tool.get("defer_loading") for tool in sent] == [None, True, True, None]
    assert reader.searching(Responses(), {"tools": tools})["tools"] == tools
