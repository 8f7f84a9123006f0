"""Ranked search and search by pattern over definitions of tools."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.shared_data import BFCL, DATA, records
from toolgate_proxy.tool_index import (
    MAX_PATTERN,
    MAX_TEXT,
    MAX_TEXTS,
    Catalogue,
    InvalidPattern,
    texts_of,
)


def tool(name: str, description: str = "", *arguments: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in arguments}}
    return {"name": name, "description": description, "parameters": schema}


TOOLS = [
    tool("get_weather", "The forecast for a city.", "city", "unit"),
    tool("createInvoice", "Bill a customer.", "customer_id", "amount"),
    tool("mcp__shop__list_orders", "List the orders of a customer.", "customer_id"),
    tool("translate", "Übersetzt einen Text ins Deutsche.", "text"),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("what is the weather in Paris", "get_weather"),
        ("forecasts", "get_weather"),
        ("invoice", "createInvoice"),
        ("INVOICES for customers", "createInvoice"),
        ("orders", "mcp__shop__list_orders"),
        ("ubersetzt einen Text", "translate"),
        ("unit", "get_weather"),
        ("what is this order of a customer", "mcp__shop__list_orders"),
    ],
)
def test_words_of_names_descriptions_and_arguments_are_found(query: str, first: str) -> None:
    assert Catalogue(texts_of(TOOLS)).ranked(query, 3)[:1] == [first]


@pytest.mark.parametrize("query", ["", "?!", "nothing matches", '"', "name:* OR NEAR(", "-"])
def test_a_query_that_matches_nothing_finds_nothing(query: str) -> None:
    assert Catalogue(texts_of(TOOLS)).ranked(query, 3) == []


def test_parts_of_words_decide_between_tools() -> None:
    tools = [tool("calcSum", "Of numbers."), tool("multiplication", "Of numbers.")]
    assert Catalogue(texts_of(tools)).ranked("multiply numbers", 1) == ["multiplication"]


def test_equal_ranks_keep_the_order_of_the_request() -> None:
    tools = [tool(f"lookup_{at}", "Look up a record.") for at in range(20)]
    assert Catalogue(texts_of(tools)).ranked("record", 3) == ["lookup_0", "lookup_1", "lookup_2"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("^get_", ["get_weather"]),
        ("(?i)CUSTOMER", ["createInvoice", "mcp__shop__list_orders"]),
        ("customer_id", ["createInvoice", "mcp__shop__list_orders"]),
        ("^unit$", []),
        ("ins Deutsche", ["translate"]),
    ],
)
def test_a_pattern_is_searched_in_each_text(pattern: str, found: list[str]) -> None:
    assert Catalogue(texts_of(TOOLS)).matching(pattern, 5) == found


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "a" * (MAX_PATTERN + 1)])
def test_a_pattern_that_can_not_be_read_is_an_error(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        Catalogue(texts_of(TOOLS)).matching(pattern, 5)


def test_tools_without_a_schema_or_a_description_are_found_by_name() -> None:
    odd: list[dict[str, Any]] = [
        {"name": "one", "parameters": True},
        {"name": "two", "description": None, "parameters": {"properties": []}},
    ]
    assert Catalogue(texts_of(odd)).ranked("two", 5) == ["two"]


@pytest.mark.parametrize(("number", "most"), [(1, MAX_TEXT), (10_000, MAX_TEXTS // 20_000)])
def test_less_is_searched_of_each_of_many_tools(number: int, most: int) -> None:
    described = "x" * 2 * MAX_TEXT
    (_, description, arguments), *_ = texts_of([tool("look", described, described)] * number)
    assert len(description) == len(arguments) == most


@pytest.mark.skipif(not (DATA / BFCL).exists(), reason="BFCL's questions are not here")
def test_right_tools_are_among_the_first() -> None:
    cases = list(records(BFCL))
    functions = {
        tool["function"]["name"]: tool["function"] for case in cases for tool in case["tools"]
    }
    catalogue = Catalogue(texts_of([*functions.values()]))
    found = {5: 0.0, 10: 0.0}
    asked = 0
    for case in cases:
        right = {name for call in case["ground_truth"] or () for name in call} & functions.keys()
        if not right:
            continue
        question = " ".join(each["content"] for each in case["messages"] if each["role"] == "user")
        ranked = catalogue.ranked(question, 10)
        asked += 1
        for most in found:
            found[most] += len(right.intersection(ranked[:most])) / len(right)
    assert asked > 800
    assert found[5] / asked > 0.86
    assert found[10] / asked > 0.91
