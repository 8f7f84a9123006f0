"""Search for tools: ranked and by pattern over their definitions, in processes with limits, which
keep catalogues."""

import asyncio
import random
from functools import cache

import pytest

from tests.proxy.kit import beside
from tests.support.effort import rotating
from tests.support.shared_data import BFCL, DATA, records
from toolgate_proxy.features.tool_search import index
from toolgate_proxy.features.tool_search.index import (
    BUSY,
    LIMITED,
    MAX_CATALOGUES,
    MAX_PATTERN,
    MAX_TEXT,
    MAX_TEXTS,
    Catalogue,
    InvalidPattern,
    SearchJob,
    _catalogue,
    run,
    search,
    texts_of,
)


def tool(name, description="", *arguments):
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in arguments}}
    return {"name": name, "description": description, "parameters": schema}


TOOLS = [
    tool("get_weather", "The forecast for a city.", "city", "unit"),
    tool("createInvoice", "Bill a customer.", "customer_id", "amount"),
    tool("mcp__shop__list_orders", "List the orders of a customer.", "customer_id"),
    tool("translate", "Übersetzt einen Text ins Deutsche.", "text"),
]
CATALOGUE = Catalogue(texts_of(TOOLS))
ROWS = beside(__file__)


def test_words_of_names_descriptions_and_arguments_are_found():
    first = {query: CATALOGUE.ranked(query, 3)[:1] for query in ROWS["queries"]}
    assert first == ROWS["queries"]


def test_parts_of_words_decide_between_tools_and_equal_ranks_keep_the_order_of_the_request():
    tools = [tool("calcSum", "Of numbers."), tool("multiplication", "Of numbers.")]
    assert Catalogue(texts_of(tools)).ranked("multiply numbers", 1) == ["multiplication"]
    tools = [tool(f"lookup_{at}", "Look up a record.") for at in range(20)]
    assert Catalogue(texts_of(tools)).ranked("record", 3) == ["lookup_0", "lookup_1", "lookup_2"]


def test_a_pattern_is_searched_in_each_text():
    found = {pattern: CATALOGUE.matching(pattern, 5) for pattern in ROWS["patterns"]}
    assert found == ROWS["patterns"]


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "a" * (MAX_PATTERN + 1)])
def test_a_pattern_that_can_not_be_read_is_an_error(pattern):
    with pytest.raises(InvalidPattern):
        CATALOGUE.matching(pattern, 5)


def test_tools_without_a_schema_or_a_description_are_found_by_name():
    odd = [
        {"name": "one", "parameters": True},
        {"name": "two", "description": None, "parameters": {"properties": []}},
    ]
    assert Catalogue(texts_of(odd)).ranked("two", 5) == ["two"]


@pytest.mark.parametrize(("number", "most"), [(1, MAX_TEXT), (10_000, MAX_TEXTS // 20_000)])
def test_less_is_searched_of_each_of_many_tools(number, most):
    described = "x" * 2 * MAX_TEXT
    (_, description, arguments), *_ = texts_of([tool("look", described, described)] * number)
    assert len(description) == len(arguments) == most


LEAST = [(0.87, 0.92), (0.90, 0.94), (0.83, 0.89), (0.85, 0.90)]
"""By part of BFCL's questions: the shares of right tools among the first five and ten."""


@pytest.mark.exhaustive
@pytest.mark.skipif(not (DATA / BFCL).exists(), reason="BFCL's questions are not here")
@rotating("part", range(len(LEAST)), one_in=len(LEAST))
def test_right_tools_are_among_the_first(part):
    cases = list(records(BFCL))
    functions = {
        tool["function"]["name"]: tool["function"] for case in cases for tool in case["tools"]
    }
    catalogue, shares = Catalogue(texts_of([*functions.values()])), []
    for case in cases[part :: len(LEAST)]:
        right = {name for call in case["ground_truth"] or () for name in call} & functions.keys()
        if right:
            users = [each for each in case["messages"] if each["role"] == "user"]
            ranked = catalogue.ranked(" ".join(each["content"] for each in users), 10)
            shares.append([len(right.intersection(ranked[:most])) / len(right) for most in (5, 10)])
    assert len(shares) > 200
    for found, least in zip(zip(*shares, strict=True), LEAST[part], strict=True):
        assert sum(found) / len(shares) > least


ENDLESS = "([a-z ]{0,90}e){9}Z"
"""A pattern that takes RE2 eight seconds for each million characters."""


@cache
def large():
    words = random.Random(1)
    return [tool(f"tool_{at}", "".join(words.choices("abcdefgh ", k=4_000))) for at in range(500)]


async def found(tools, query, owner="", *, regex=True):
    result = await search(tools, query, 5, owner, regex=regex)
    return result.names or result.error


async def test_searches_find_the_same_again():
    for tools in (TOOLS, TOOLS[::-1]):
        for _ in range(2):
            assert await found(tools, "forecast \ud83d", regex=False) == ["get_weather"]
            assert await found(tools, "^trans") == ["translate"]
    assert "not a regular expression" in await found(TOOLS, "(")


@pytest.mark.exhaustive
async def test_a_search_at_its_limit_is_an_error_while_others_are_served(monkeypatch):
    """The limit of the endless search is far above the time of the others."""
    monkeypatch.setitem(index.CPU_SECONDS, True, 1.0)
    tools = large()
    endless = [asyncio.create_task(found(tools, ENDLESS, "a")) for _ in range(2)]
    for _ in range(5):
        assert await found(TOOLS, "^trans", "b") == ["translate"]
        assert await found(TOOLS, "forecast", "b", regex=False) == ["get_weather"]
    assert not any(task.done() for task in endless)
    assert await asyncio.gather(*endless) == [LIMITED, LIMITED]


@pytest.mark.exhaustive
async def test_a_search_that_gets_no_process_is_an_error(monkeypatch):
    """One key has one process, in which its other search runs."""
    monkeypatch.setattr(index._POOL, "_wait_seconds", 0.5)
    monkeypatch.setattr(index, "WALL_SECONDS", 3.0)
    tools = large()
    endless = [found(tools, ENDLESS, "a") for _ in range(2)]
    assert sorted(await asyncio.gather(*endless)) == [BUSY, LIMITED]


def test_catalogues_are_kept_for_each_sender():
    _catalogue.cache_clear()
    for owner in ("me", "other", "me"):
        job = SearchJob(owner=owner, texts=texts_of(TOOLS), query="city", limit=1, regex=False)
        assert run(job).names == ["get_weather"]
    kept = _catalogue.cache_info()
    assert (kept.hits, kept.misses, kept.maxsize) == (1, 2, MAX_CATALOGUES)
