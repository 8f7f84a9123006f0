"""Messages of Anthropic's API as chat completions, which LiteLLM's log events contain."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson

FINISH_REASONS = {"tool_use": "tool_calls", "max_tokens": "length"}
"""By `stop_reason`; `stop` for others."""


def completion_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat.completion object."""
    blocks, usage = message["content"], message["usage"]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    thinking = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {
                "name": block["name"],
                "arguments": orjson.dumps(block["input"]).decode(),
            },
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]
    shown: dict[str, Any] = {"role": "assistant", "content": text or None}
    if thinking:
        shown["reasoning_content"] = thinking
    if calls:
        shown["tool_calls"] = calls
    spent = [usage, *(each for each in usage.get("iterations", ()) if each["type"] == "compaction")]
    cached = sum(each["cache_read_input_tokens"] for each in spent)
    prompt = sum(each["input_tokens"] for each in spent) + cached
    completion = sum(each["output_tokens"] for each in spent)
    return {
        "id": message["id"],
        "object": "chat.completion",
        "created": int(time.time()),
        "model": message["model"],
        "choices": [
            {
                "index": 0,
                "message": shown,
                "finish_reason": FINISH_REASONS.get(message["stop_reason"], "stop"),
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }
