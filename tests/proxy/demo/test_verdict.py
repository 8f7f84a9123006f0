"""Verdicts of the demo's comparison: which calls are valid, and where others break."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolgate_proxy.demo.hard_tool import TOOL
from toolgate_proxy.demo.verdict import Problem, problem_of, read_calls

CODE = {"code": "WEB-2143"}


def raw(*calls: Any) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)


def ticket(**arguments: Any) -> dict[str, Any]:
    return {"name": "open_ticket", "arguments": arguments}


def verdict(text: str) -> Problem | None:
    calls = read_calls(text)
    return calls if isinstance(calls, Problem) else problem_of(calls, TOOL)


@pytest.mark.parametrize(
    "arguments",
    [
        CODE,
        {**CODE, "priority": "high", "due": "2026-03-02T09:00:00Z", "labels": ["auth", "web"]},
        {**CODE, "contact": None},
        {**CODE, "contact": {"name": "Anna", "channel": "sms"}},
    ],
)
def test_valid_calls_have_no_problem(arguments: dict[str, Any]) -> None:
    assert verdict(raw(ticket(**arguments), ticket(**CODE))) is None
    assert verdict(f"<think>\n\n</think>\n\n{raw(ticket(**arguments))}") is None


@pytest.mark.parametrize(
    ("arguments", "place", "keyword"),
    [
        ({"code": "web"}, "/properties/code", "pattern"),
        ({**CODE, "priority": "urgent"}, "/properties/priority", "enum"),
        ({**CODE, "due": "tomorrow"}, "/properties/due", "format"),
        ({**CODE, "labels": ["one"]}, "/properties/labels", "minItems"),
        ({**CODE, "labels": ["one", "two", "three"]}, "/properties/labels", "maxItems"),
        ({**CODE, "contact": {"name": "Anna"}}, "/properties/contact", "anyOf"),
        ({"priority": "low"}, "", "required"),
        ({**CODE, "date": "now"}, "", "additionalProperties"),
        ([], "", "type"),
    ],
)
def test_violations_name_their_place_in_the_schema(
    arguments: Any, place: str, keyword: str
) -> None:
    found = verdict(raw(ticket(**CODE), {"name": "open_ticket", "arguments": arguments}))
    assert found is not None
    assert (found.place, found.kind) == (place, keyword)


def test_a_violation_is_printed_with_its_value() -> None:
    found = verdict(raw(ticket(**CODE, due="tomorrow")))
    assert str(found) == '/properties/due "tomorrow" is not a date-time'


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Which ticket?", "none"),
        ("", "none"),
        ("<tool_call>\n{]\n</tool_call>", "json"),
        (raw(ticket(**CODE)) + '\n<tool_call>\n{"name": "open_ticket"', "open"),
        (raw({"arguments": CODE}), "name"),
        (raw({"name": "close_ticket", "arguments": CODE}), "unknown"),
        (raw({"name": "open_ticket"}), "type"),
    ],
)
def test_text_that_is_no_valid_call_is_a_problem(text: str, kind: str) -> None:
    found = verdict(text)
    assert found is not None
    assert found.kind == kind
