"""Searches for tools in processes: their limits, and the catalogues that the processes keep."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from toolgate_proxy import tool_searches
from toolgate_proxy.tool_index import texts_of
from toolgate_proxy.tool_searches import (
    BUSY,
    LIMITED,
    MAX_CATALOGUES,
    SearchJob,
    _catalogue,
    run,
    search,
)

ENDLESS = "([a-z ]{0,90}e){9}Z"
"""A pattern that takes RE2 eight seconds for each million characters."""


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description, "parameters": {"type": "object"}}


TOOLS = [tool("get_weather", "The forecast."), tool("lookup", "Looks up a record.")]
RANDOM = random.Random(1)
LARGE = [tool(f"tool_{at}", "".join(RANDOM.choices("abcdefgh ", k=4_000))) for at in range(500)]


async def found(tools: Sequence[Any], query: str, owner: str = "", *, regex: bool = True) -> Any:
    result = await search(tools, query, 5, owner, regex=regex)
    return result.names or result.error


async def test_searches_find_the_same_again() -> None:
    for tools in (TOOLS, TOOLS[::-1]):
        for _ in range(2):
            assert await found(tools, "forecast \ud83d", regex=False) == ["get_weather"]
            assert await found(tools, "^look") == ["lookup"]
    assert "not a regular expression" in await found(TOOLS, "(")


async def test_a_search_at_its_limit_is_an_error_while_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit of the endless search is far above the time of the others."""
    monkeypatch.setitem(tool_searches.CPU_SECONDS, True, 2.0)
    endless = [asyncio.create_task(found(LARGE, ENDLESS, "a")) for _ in range(2)]
    for _ in range(5):
        assert await found(TOOLS, "^look", "b") == ["lookup"]
        assert await found(TOOLS, "record", "b", regex=False) == ["lookup"]
    assert not any(task.done() for task in endless)
    assert await asyncio.gather(*endless) == [LIMITED, LIMITED]


async def test_a_search_that_gets_no_process_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """One key has one process, in which its other search runs."""
    monkeypatch.setattr(tool_searches._POOL, "_wait_seconds", 0.5)
    monkeypatch.setattr(tool_searches, "WALL_SECONDS", 3.0)
    endless = [found(LARGE, ENDLESS, "a") for _ in range(2)]
    assert sorted(await asyncio.gather(*endless)) == [BUSY, LIMITED]


def test_catalogues_are_kept_for_each_sender() -> None:
    _catalogue.cache_clear()
    for owner in ("me", "other", "me"):
        job = SearchJob(owner=owner, texts=texts_of(TOOLS), query="record", limit=1, regex=False)
        assert run(job).names == ["lookup"]
    kept = _catalogue.cache_info()
    assert (kept.hits, kept.misses, kept.maxsize) == (1, 2, MAX_CATALOGUES)
