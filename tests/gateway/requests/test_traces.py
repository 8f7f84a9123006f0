"""Traces of tokens: they are those of the engine, whatever the request asks for."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests import tools

UNIQUE = tools.tool(
    "set_flags",
    {"flags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "uniqueItems": True}},
)
REQUESTS: dict[str, dict[str, Any]] = {
    "calls": {"tools": tools.ALL, "tool_choice": "required", "reasoning_effort": "none"},
    "reasoning": {"tools": tools.ALL, "tool_choice": "auto", "reasoning_effort": "high"},
    "content": {"reasoning_effort": "none"},
    "format": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "t", "schema": tools.TAGS["function"]["parameters"]},
        },
        "reasoning_effort": "none",
    },
    "choices": {"tools": tools.ALL, "tool_choice": "required", "reasoning_effort": "none", "n": 2},
    "sampled again": {
        "tools": [UNIQUE],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning_effort": "none",
    },
}
PHASES = {
    "calls": "tool_call",
    "reasoning": "thinking",
    "content": "content",
    "format": "format",
    "choices": "tool_call",
    "sampled again": "tool_call",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_each_token_of_a_stream_has_its_trace(
    client: openai.OpenAI, common: dict[str, Any], adapter: str, name: str
) -> None:
    stream = client.chat.completions.create(
        **common | REQUESTS[name],
        messages=[{"role": "user", "content": "Weather?"}],
        stream=True,
        extra_body={"return_token_ids": True},
        stream_options={"include_usage": True, "toolgate_trace": True},
    )
    ids: dict[int, list[int]] = {}
    traces: dict[int, list[dict[str, Any]]] = {}
    for chunk in stream:
        for choice in chunk.choices:
            extra = choice.model_extra or {}
            ids.setdefault(choice.index, []).extend(extra.get("token_ids") or ())
            for each in extra.get("toolgate", {}).get("trace", ()):
                kept = traces.setdefault(choice.index, [])
                del kept[each["at"] :]
                kept.append(each)
    assert sorted(traces) == [*range(REQUESTS[name].get("n", 1))]
    for index, trace in traces.items():
        assert [each["at"] for each in trace] == [*range(len(trace))]
        assert [each["id"] for each in trace] == ids[index]
        assert all(each["allowed"] >= 1 for each in trace)
        assert all((each["kind"] == "forced") == (each["allowed"] == 1) for each in trace)
    assert PHASES[name] in {each["phase"] for trace in traces.values() for each in trace}
