"""Where a response without enforcement breaks its request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.servers.script import call
from toolgate_core.chat_request import ChatRequest
from toolgate_core.dialects.families.hermes import QWEN3
from toolgate_core.plan import make_plan
from toolgate_core.tools import parse_tools
from toolgate_proxy.admin.judgement import Judgement, judge
from toolgate_proxy.validation.service import ValidationService

SCHEMA = {
    "type": "object",
    "properties": {"due": {"type": "string", "format": "date-time"}, "n": {"type": "integer"}},
    "required": ["due"],
    "additionalProperties": False,
}
TOOLS = parse_tools(
    [
        {"type": "function", "function": {"name": name, "parameters": SCHEMA}}
        for name in ("plan", "drop")
    ]
)
GOOD = call("plan", {"due": "2026-01-31T12:00:00Z"})


async def judged(text: str, finish_reason: str = "stop", **changes: Any) -> Judgement:
    request = ChatRequest(
        request_id="r", model="tiny", messages=(), tools=TOOLS, **{"tool_choice": "auto", **changes}
    )
    plan = make_plan(request, QWEN3)
    validators = ValidationService()
    return await judge(text, finish_reason, request, plan, QWEN3, validators)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"{GOOD}\n{GOOD}",
        f"<think>Which day?</think>\n{GOOD}",
        f"Which day?</think>\n{GOOD}",
        "No call is needed.",
    ],
)
async def test_nothing_is_broken(text: str) -> None:
    found = await judged(text)
    assert found.breaks == []
    assert found.calls == text.count("<tool_call>")


@pytest.mark.parametrize(
    ("arguments", "pointer", "keyword", "marked", "demanded"),
    [
        ({"due": "tomorrow"}, "/due", "format", '"tomorrow"', '"date-time"'),
        ({"due": "2026-01-31T12:00:00Z", "n": "3"}, "/n", "type", '"3"', '"integer"'),
        ({"n": 3}, "", "required", '{"n": 3}', '["due"]'),
    ],
)
async def test_the_value_that_violates_its_schema_is_marked_with_what_is_allowed(
    arguments: dict[str, Any], pointer: str, keyword: str, marked: str, demanded: str
) -> None:
    text = f"🙂 {GOOD}\n{call('plan', arguments)}"
    found = await judged(text)
    [broken] = found.breaks
    assert (broken.pointer, broken.keyword) == (pointer, keyword)
    units = text.encode("utf-16-le")[2 * broken.begin : 2 * broken.end].decode("utf-16-le")
    assert units == marked
    assert broken.message.endswith(f"`{keyword}`, which is {demanded}.")
    assert found.calls == 2


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        (call("plan", '{"due": tomorrow}'), "tomorrow}"),
        (GOOD.replace("plan", "fly"), '", "arguments"'),
    ],
)
async def test_text_that_leaves_the_dialect_is_marked_to_its_end(text: str, begin: str) -> None:
    [broken] = (await judged(text)).breaks
    assert text[broken.begin : broken.end].startswith(begin) or broken.begin >= text.index("fly")
    assert broken.end == len(text)
    assert broken.message


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        ("Sure!", {"tool_choice": "required"}, "requires one"),
        (GOOD, {"tool_choice": "none"}, "allows none"),
        (f"{GOOD}\n{GOOD}", {"parallel_tool_calls": False}, "allows one call"),
    ],
)
async def test_a_response_that_ignores_the_tool_choice_is_broken(
    text: str, changes: dict[str, Any], words: str
) -> None:
    [broken] = (await judged(text, **changes)).breaks
    assert words in broken.message


async def test_a_response_that_was_cut_is_not_broken_by_its_end() -> None:
    found = await judged(GOOD[: GOOD.index("12:00")], "length")
    assert (found.cut, found.breaks) == (True, [])
