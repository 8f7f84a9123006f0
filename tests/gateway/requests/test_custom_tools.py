"""Custom tools through the whole stack, on both APIs, streamed and not."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.support.grammars.custom_grammars import CASES, PATCH, parser

ARITHMETIC = next(case for case in CASES if case.name == "arithmetic")
DATE = next(case for case in CASES if case.name == "date")
SMALL = 'start: "say(" /[^\\n"]{1,8}/ ")" "\\n" QUOTED\nQUOTED: /"[a-c\\\\]{0,4}"/\n'
GRAMMARS = {
    "lark": ("lark", SMALL),
    "arithmetic": ("lark", ARITHMETIC.definition),
    "regex": ("regex", DATE.definition),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_both_apis_stream_the_same_input_which_matches_the_grammar(
    client: openai.OpenAI, common: dict[str, Any], name: str
) -> None:
    syntax, definition = GRAMMARS[name]
    matches = parser(syntax, definition)
    shape = {"syntax": syntax, "definition": definition}
    chat_tool = {
        "type": "custom",
        "custom": {"name": "run", "format": {"type": "grammar", "grammar": shape}},
    }
    tool = {"type": "custom", "name": "run", "format": {"type": "grammar", **shape}}
    complete = 0
    for seed in range(4):
        chat: dict[str, Any] = {
            "model": common["model"],
            "messages": [{"role": "user", "content": "Run it."}],
            "tools": [chat_tool],
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "max_tokens": 200,
            "seed": seed,
            "extra_body": {"chat_template_kwargs": {"enable_thinking": False}},
        }
        whole = client.chat.completions.create(**chat).choices[0]
        call = whole.message.tool_calls[0]  # type: ignore[index]
        assert call.type == "custom"
        parts = []
        for chunk in client.chat.completions.create(**chat, stream=True):
            for delta in chunk.choices[0].delta.tool_calls or () if chunk.choices else ():
                parts.append(delta.model_dump()["custom"]["input"])
        assert "".join(parts) == call.custom.input
        response = client.responses.create(
            model=common["model"],
            input="Run it.",
            tools=[tool],  # type: ignore[list-item]
            tool_choice="required",
            parallel_tool_calls=False,
            max_output_tokens=200,
            extra_body={"seed": seed, "chat_template_kwargs": {"enable_thinking": False}},
        )
        (item,) = response.output
        assert item.type == "custom_tool_call"
        assert item.input == call.custom.input
        if whole.finish_reason != "length":
            complete += 1
            assert matches(item.input), item.input
    assert complete


def test_a_grammar_that_cannot_be_enforced_is_refused_with_its_line(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    shape = {"type": "grammar", "syntax": "lark", "definition": PATCH + 'x: "a" <[5]>\n'}
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(
            model=common["model"],
            input="Patch it.",
            tools=[{"type": "custom", "name": "patch", "format": shape}],  # type: ignore[list-item]
        )
    assert refused.value.param == "tools[0].format.definition"
    assert "line 20, column 8" in refused.value.message
