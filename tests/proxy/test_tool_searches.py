"""Searches for tools in processes: their limits, and the catalogues that the processes keep."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from toolgate_proxy import tool_searches
from toolgate_proxy.tool_index import texts_of
from toolgate_proxy.tool_searches import (
    BUSY,
    LIMITED,
    Catalogues,
    SearchFailed,
    SearchJob,
    SharedFunctions,
    ToolSearches,
)

ENDLESS = "([a-z ]{0,90}e){9}Z"
"""A pattern that takes RE2 eight seconds for each million characters."""


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description, "parameters": {"type": "object"}}


TOOLS = [tool("get_weather", "The forecast."), tool("lookup", "Looks up a record.")]
RANDOM = random.Random(1)
LARGE = [tool(f"tool_{at}", "".join(RANDOM.choices("abcdefgh ", k=4_000))) for at in range(500)]


def job(owner: str, tools: list[dict[str, Any]] | None, query: str = "look") -> SearchJob:
    texts = None if tools is None else texts_of(tools)
    return SearchJob(
        cpu_seconds=9, catalogue=owner, query=query, limit=1, is_pattern=False, texts=texts
    )


async def test_searches_find_the_same_again() -> None:
    searches = ToolSearches()
    for tools in (TOOLS, SharedFunctions(TOOLS), TOOLS[::-1]):
        for _ in range(2):
            assert await searches.ranked(tools, "forecast \ud83d", 5) == ["get_weather"]
            assert await searches.matching(tools, "^look", 5) == ["lookup"]
    with pytest.raises(SearchFailed, match="not a regular expression"):
        await searches.matching(TOOLS, "(", 5)


async def test_a_search_at_its_limit_is_an_error_while_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit of the endless search is far above the time of the others."""
    monkeypatch.setattr(tool_searches, "MATCHING_SECONDS", 2.0)
    searches = ToolSearches()
    endless = [
        asyncio.create_task(searches.matching(LARGE, ENDLESS, 5, owner="a")) for _ in range(2)
    ]
    for _ in range(5):
        assert await searches.matching(TOOLS, "^look", 5, owner="b") == ["lookup"]
        assert await searches.ranked(TOOLS, "record", 5, owner="b") == ["lookup"]
    assert not any(task.done() for task in endless)
    for task in endless:
        with pytest.raises(SearchFailed, match=LIMITED[:30]):
            await task


async def test_a_search_that_gets_no_process_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """One key has one process, in which its other search runs."""
    searches = ToolSearches()
    await searches.ranked(TOOLS, "record", 5, owner="a")
    monkeypatch.setattr(searches._pool, "_wall_seconds", 1.0)
    endless = [searches.matching(LARGE, ENDLESS, 5, owner="a") for _ in range(2)]
    errors = await asyncio.gather(*endless, return_exceptions=True)
    assert [*map(str, errors)] == [LIMITED, BUSY]


def test_catalogues_are_kept_within_their_bound() -> None:
    catalogues = Catalogues(max_size=300)
    for at in range(10):
        tools = [tool(f"look_{at}", "x" * 100)]
        for texts in (tools, None):
            assert catalogues.run(job(f"{at}", texts)).names == [f"look_{at}"]
    assert [*catalogues._made] == ["8", "9"]
    assert catalogues.run(job("7", None)).names is None


async def test_each_sender_has_catalogues_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, searches = Catalogues(), ToolSearches()

    async def run(each: SearchJob, owner: str) -> Any:
        return kept.run(each)

    monkeypatch.setattr(searches, "_run", run)
    for owner in ("me", "other", "me"):
        for tools in (TOOLS, SharedFunctions(TOOLS)):
            assert await searches.ranked(tools, "look", 1, owner=owner) == ["lookup"]
    assert [each.split()[0] for each in kept._made] == ["other", "me"]
