"""Reads responses as a client does: streamed and whole ones end up in one form."""

import json
import re
from typing import Any

from toolgate_proxy.backend_client.event_stream import SseParser

CALL_ID = re.compile(r"call_[0-9A-Za-z]{24}|functions\..+:\d+|[0-9A-Za-z]{9,10}")
"""Ours, those of Kimi's templates, and those that models of Mistral and Solar write."""


def collected(chunks: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The choices that the chunks of a stream with its usage add up to, by index."""
    assert all(len(chunk["choices"]) == 1 for chunk in chunks[:-1])
    assert chunks[-1]["choices"] == []
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert len({(chunk["created"], chunk["system_fingerprint"]) for chunk in chunks}) == 1
    return of_whole(from_chunks(chunks))


def extensions(choice: dict[str, Any]) -> dict[str, Any]:
    return {name: choice[name] for name in ("stop_reason", "toolgate") if choice.get(name)}


def calls_of_whole(message: dict[str, Any]) -> list[list[str]]:
    return [
        [part["function"]["name"], part["function"]["arguments"]]
        for part in message.get("tool_calls") or []
    ]


def call_logprobs_of_whole(logprobs: dict[str, Any]) -> dict[int, str]:
    """The tokens of each call, joined, by its index."""
    merged: dict[int, str] = {}
    for part in logprobs.get("tool_calls", []):
        text = "".join(token["token"] for token in part["content"])
        merged[part["index"]] = merged.get(part["index"], "") + text
    return merged


def of_whole(response: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {
        choice["index"]: {
            "content": choice["message"]["content"],
            "reasoning": choice["message"].get("reasoning_content"),
            "calls": calls_of_whole(choice["message"]),
            "finish": choice["finish_reason"],
            "logprobs": [
                token["token"] for token in (choice.get("logprobs") or {}).get("content", [])
            ],
            "call_logprobs": call_logprobs_of_whole(choice.get("logprobs") or {}),
            "token_ids": choice.get("token_ids") or [],
            "extensions": extensions(choice),
        }
        for choice in response["choices"]
    }


def joined(data: bytes) -> dict[str, Any]:
    """The chat completion that a stream adds up to. Raises ValueError if it is incomplete or breaks
    OpenAI's format."""
    # Only "\n" ends a line: JSON may contain Unicode's other line separators.
    lines = [line for line in data.split(b"\n") if line.startswith(b"data: ")]
    chunks = [line.removeprefix(b"data: ") for line in lines]
    if chunks[-1:] != [b"[DONE]"]:
        raise ValueError(f"the stream ended with {chunks[-1:]}")
    return from_chunks([json.loads(chunk) for chunk in chunks[:-1]])


def from_chunks(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Combine the chunks of a stream. Raises ValueError if they violate OpenAI's format."""
    choices: dict[int, dict[str, Any]] = {}
    usage = None
    for chunk in chunks:
        if "error" in chunk:
            raise ValueError(f"an error in the stream: {chunk['error']}")
        usage = chunk.get("usage") or usage
        for part in chunk["choices"]:
            _merge(choices, part)
    if any(choice["finish_reason"] is None for choice in choices.values()):
        raise ValueError("a choice without a finish_reason")
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage}


def _merge(choices: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    index, delta = part["index"], part["delta"]
    if index not in choices:
        _require(delta.get("role") == "assistant", "the first delta of a choice has no role")
        message = {"content": None}
        choices[index] = {"index": index, "message": message, "finish_reason": None}
    else:
        _require(delta.get("role") is None, "a second role")
    choice = choices[index]
    _require(choice["finish_reason"] is None, "a delta after the finish_reason of its choice")
    message = choice["message"]
    for name in ("content", "reasoning_content"):
        if delta.get(name) is not None:
            message[name] = (message.get(name) or "") + delta[name]
    called = delta.get("tool_calls") or []
    _require(len(called) <= 1, "a delta of two calls")
    for call in called:
        _merge_call(message.setdefault("tool_calls", []), call)
    if part.get("logprobs"):
        logprobs = choice.setdefault("logprobs", {"content": [], "tool_calls": []})
        for name in logprobs:
            logprobs[name] += part["logprobs"].get(name) or []
    if part.get("token_ids"):
        choice.setdefault("token_ids", []).extend(part["token_ids"])
    for name in ("stop_reason", "toolgate"):
        if part.get(name) is not None:
            choice[name] = part[name]
    choice["finish_reason"] = part.get("finish_reason")


def _merge_call(calls: list[dict[str, Any]], part: dict[str, Any]) -> None:
    function = part["function"]
    if part["index"] == len(calls):
        _require(CALL_ID.fullmatch(part["id"]) is not None, "another form of IDs")
        _require(part["type"] == "function", "another type of calls")
        _require(function["arguments"] == "", "arguments in the delta of the name")
        calls.append({"id": part["id"], "function": dict(function)})
        return
    _require(part["index"] == len(calls) - 1, "tool calls out of order")
    _require(part.get("id") is None and function.get("name") is None, "a second name or ID")
    calls[-1]["function"]["arguments"] += function["arguments"]


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def read_events(data: bytes) -> list[dict[str, Any]]:
    """The events of a stream. Asserts that each has an `event:` line with its type."""
    made = [json.loads(each) for each in SseParser().feed(data)]
    lines = [line for line in data.decode().splitlines() if line.startswith("event: ")]
    assert [line.removeprefix("event: ") for line in lines] == [each["type"] for each in made]
    return made
