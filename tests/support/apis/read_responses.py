"""Reads responses as a client does: streamed and whole ones end up in one form."""

from __future__ import annotations

from typing import Any


def collected(chunks: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The choices that the chunks add up to. Asserts OpenAI's rules for chunks on the way."""
    choices: dict[int, dict[str, Any]] = {}
    for chunk in chunks[:-1]:
        (shown,) = chunk["choices"]
        delta, index = shown["delta"], shown["index"]
        if index not in choices:
            assert delta["role"] == "assistant"
            choices[index] = {
                "content": None,
                "reasoning": None,
                "calls": [],
                "finish": None,
                "logprobs": [],
                "call_logprobs": {},
                "token_ids": [],
                "extensions": {},
            }
        else:
            assert delta.get("role") is None
        choice = choices[index]
        assert choice["finish"] is None, "nothing comes after the finish"
        if (text := delta.get("content")) is not None:
            choice["content"] = (choice["content"] or "") + text
        if (text := delta.get("reasoning_content")) is not None:
            choice["reasoning"] = (choice["reasoning"] or "") + text
        calls = delta.get("tool_calls") or []
        assert len(calls) <= 1
        for part in calls:
            if part["index"] == len(choice["calls"]):
                assert part["id"].startswith("call_")
                assert len(part["id"]) == 29
                assert part["type"] == "function"
                assert part["function"]["arguments"] == ""
                choice["calls"].append([part["function"]["name"], ""])
            else:
                assert part["index"] == len(choice["calls"]) - 1
                assert part.get("id") is None
                assert part["function"].get("name") is None
                choice["calls"][-1][1] += part["function"]["arguments"]
        if (part := delta.get("function_call")) is not None:
            if part.get("name"):
                choice["calls"].append([part["name"], ""])
            choice["calls"][-1][1] += part["arguments"]
        if shown.get("logprobs") is not None:
            choice["logprobs"] += [token["token"] for token in shown["logprobs"]["content"]]
            merge_call_logprobs(choice["call_logprobs"], shown["logprobs"])
        choice["token_ids"] += shown.get("token_ids") or []
        choice["extensions"] |= extensions(shown)
        choice["finish"] = shown["finish_reason"]
    assert chunks[-1]["choices"] == []
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert len({(chunk["created"], chunk["system_fingerprint"]) for chunk in chunks}) == 1
    return choices


def merge_call_logprobs(into: dict[int, str], logprobs: dict[str, Any]) -> None:
    for call_ in logprobs.get("tool_calls", []):
        text = "".join(token["token"] for token in call_["content"])
        into[call_["index"]] = into.get(call_["index"], "") + text


def extensions(choice: dict[str, Any]) -> dict[str, Any]:
    return {name: choice[name] for name in ("stop_reason", "toolgate") if choice.get(name)}


def calls_of_whole(message: dict[str, Any]) -> list[list[str]]:
    if message.get("function_call"):
        return [[message["function_call"]["name"], message["function_call"]["arguments"]]]
    return [
        [part["function"]["name"], part["function"]["arguments"]]
        for part in message.get("tool_calls") or []
    ]


def call_logprobs_of_whole(logprobs: dict[str, Any]) -> dict[int, str]:
    merged: dict[int, str] = {}
    merge_call_logprobs(merged, logprobs)
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
