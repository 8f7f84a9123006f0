"""Requests in no API's form, and their bodies in the form of each API."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.apis.messages_api import SEAL
from toolgate_proxy.api.messages.conversation.signature import sign
from toolgate_proxy.api.responses.parameters import LOGPROBS

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
CHOICES = {"none": "none", "auto": "auto", "required": "any"}


def bodies(asked: NeutralRequest) -> dict[str, dict[str, Any]]:
    """By name of the surface. The Messages API has neither logprobs nor allowed tools."""
    made = {"chat completions": _chat(asked), "responses": _responses(asked)}
    if asked.top_logprobs is None and not asked.allowed:
        made["messages"] = _messages(asked)
    return made


def _continued(asked: NeutralRequest) -> dict[str, Any]:
    """In the Messages API, a last message of the assistant is always continued."""
    last = asked.turns[-1]
    return {"continue_final_message": True} if isinstance(last, Assistant) else {}


def _openai(asked: NeutralRequest) -> dict[str, Any]:
    """What chat completions and Responses have in common."""
    body: dict[str, Any] = {"model": "tiny", **asked.shared, **_continued(asked)}
    if not asked.parallel:
        body["parallel_tool_calls"] = False
    if asked.stop:
        body["stop"] = [*asked.stop]
    if asked.top_logprobs is not None:
        body["top_logprobs"] = asked.top_logprobs
    if asked.thinking is not None and asked.thinking.effort is None:
        body["enable_thinking"] = asked.thinking.on
        if asked.thinking.budget is not None:
            body["reasoning_budget"] = asked.thinking.budget
    return body


def _chat(asked: NeutralRequest) -> dict[str, Any]:
    def named(name: str) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name}}

    body = _openai(asked) | {"max_tokens": asked.max_tokens, "messages": [*_chat_turns(asked)]}
    if asked.tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in asked.tools]
        body["tool_choice"] = named(asked.named) if asked.named else asked.choice
    if asked.allowed:
        allowed = {"mode": asked.choice, "tools": [named(name) for name in asked.allowed]}
        body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
    if asked.format is not None:
        form = {"name": "x", "schema": asked.format}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if asked.thinking is not None and asked.thinking.effort is not None:
        body["reasoning_effort"] = asked.thinking.effort
    if asked.top_logprobs is not None:
        body["logprobs"] = True
    return body


def _chat_turns(asked: NeutralRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if asked.system:
        messages.append({"role": "system", "content": asked.system})
    for turn in asked.turns:
        match turn:
            case User(texts, image):
                content = _content(texts, "text", _chat_image(image))
                messages.append({"role": "user", "content": content})
            case Assistant(reasoning, text, calls):
                message: dict[str, Any] = {"role": "assistant", "content": text or None}
                if reasoning:
                    message["reasoning_content"] = reasoning
                if calls:
                    message["tool_calls"] = [
                        {"id": call.id, "type": "function", "function": _function(call)}
                        for call in calls
                    ]
                messages.append(message)
            case results:
                messages += [
                    {
                        "role": "tool",
                        "tool_call_id": result.call_id,
                        "content": _content(result.texts, "text", _chat_image(result.image)),
                    }
                    for result in results
                ]
    return messages


def _responses(asked: NeutralRequest) -> dict[str, Any]:
    def named(name: str) -> dict[str, Any]:
        return {"type": "function", "name": name}

    body = _openai(asked) | {"max_output_tokens": asked.max_tokens, "input": _items(asked)}
    if asked.system:
        body["instructions"] = asked.system
    if asked.tools:
        body["tools"] = [{"type": "function", **tool} for tool in asked.tools]
        body["tool_choice"] = named(asked.named) if asked.named else asked.choice
    if asked.allowed:
        tools = [named(name) for name in asked.allowed]
        body["tool_choice"] = {"type": "allowed_tools", "mode": asked.choice, "tools": tools}
    if asked.format is not None:
        form = {"type": "json_schema", "name": "x", "schema": asked.format}
        body["text"] = {"format": form}
    if asked.thinking is not None and asked.thinking.effort is not None:
        body["reasoning"] = {"effort": asked.thinking.effort}
    if asked.top_logprobs is not None:
        body["include"] = [LOGPROBS]
    return body


def _items(asked: NeutralRequest) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for turn in asked.turns:
        match turn:
            case User(texts, image):
                content = _content(texts, "input_text", _responses_image(image))
                items.append({"type": "message", "role": "user", "content": content})
            case Assistant(reasoning, text, calls):
                if reasoning:
                    part = {"type": "reasoning_text", "text": reasoning}
                    items.append({"type": "reasoning", "summary": [], "content": [part]})
                if text:
                    items.append({"role": "assistant", "content": text})
                items += [
                    {"type": "function_call", "call_id": call.id, **_function(call)}
                    for call in calls
                ]
            case results:
                items += [
                    {
                        "type": "function_call_output",
                        "call_id": result.call_id,
                        "output": _content(
                            result.texts, "input_text", _responses_image(result.image)
                        ),
                    }
                    for result in results
                ]
    return items


def _messages(asked: NeutralRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": "tiny",
        **asked.shared,
        "max_tokens": asked.max_tokens,
        "messages": _message_turns(asked),
    }
    if asked.system:
        body["system"] = asked.system
    if asked.tools:
        body["tools"] = [_messages_tool(tool) for tool in asked.tools]
    named = {"type": "tool", "name": asked.named}
    choice = named if asked.named else {"type": CHOICES[asked.choice]}
    body["tool_choice"] = {**choice, "disable_parallel_tool_use": not asked.parallel}
    if asked.stop:
        body["stop_sequences"] = [*asked.stop]
    config: dict[str, Any] = {}
    if asked.format is not None:
        config["format"] = {"type": "json_schema", "schema": asked.format}
    if asked.thinking is not None:
        body["thinking"] = {"type": "adaptive" if asked.thinking.on else "disabled"}
        if asked.thinking.budget is not None:
            budget = asked.thinking.budget
            body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        if asked.thinking.effort is not None:
            config["effort"] = asked.thinking.effort
    if config:
        body["output_config"] = config
    return body


def _message_turns(asked: NeutralRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for turn in asked.turns:
        match turn:
            case User(texts, image):
                content = _content(texts, "text", _messages_image(image))
                messages.append({"role": "user", "content": content})
            case Assistant() as said:
                messages.append({"role": "assistant", "content": _blocks(said)})
            case results:
                blocks = [
                    {
                        "type": "tool_result",
                        "tool_use_id": _tool_use_id(result.call_id),
                        "content": _content(result.texts, "text", _messages_image(result.image)),
                    }
                    for result in results
                ]
                messages.append({"role": "user", "content": blocks})
    return messages


def _function(call: Call) -> dict[str, Any]:
    return {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}


def _content(
    texts: tuple[str, ...], kind: str, more: list[dict[str, Any]] | None = None
) -> str | list[dict[str, Any]]:
    if len(texts) == 1 and not more:
        return texts[0]
    return [*({"type": kind, "text": text} for text in texts), *(more or ())]


def _chat_image(wanted: bool) -> list[dict[str, Any]]:
    url = {"url": f"data:image/png;base64,{PNG}"}
    return [{"type": "image_url", "image_url": url}] if wanted else []


def _responses_image(wanted: bool) -> list[dict[str, Any]]:
    return [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}] if wanted else []


def _messages_image(wanted: bool) -> list[dict[str, Any]]:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    return [{"type": "image", "source": source}] if wanted else []


def _messages_tool(function: dict[str, Any]) -> dict[str, Any]:
    tool = {name: value for name, value in function.items() if name != "parameters"}
    return {**tool, "input_schema": function["parameters"]}


def _tool_use_id(call_id: str) -> str:
    """The form in which the client got the id."""
    return call_id.replace("call_", "toolu_")


def _blocks(said: Assistant) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if said.reasoning:
        signature = sign(SEAL, said.reasoning)
        blocks.append({"type": "thinking", "thinking": said.reasoning, "signature": signature})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    for call in said.calls:
        blocks.append(
            {
                "type": "tool_use",
                "id": _tool_use_id(call.id),
                "name": call.name,
                "input": call.arguments,
            }
        )
    return blocks


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class User:
    texts: tuple[str, ...]
    """One or several parts."""
    image: bool = False
    """Whether an image follows."""


@dataclass(frozen=True)
class Assistant:
    reasoning: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Result:
    call_id: str
    texts: tuple[str, ...]
    image: bool = False
    """Whether an image follows."""


Turn = User | Assistant | tuple[Result, ...]


@dataclass(frozen=True)
class Thinking:
    """`effort` and `budget` only while it is on, and one of them at most."""

    on: bool
    effort: str | None = None
    budget: int | None = None


@dataclass(frozen=True)
class NeutralRequest:
    turns: tuple[Turn, ...]
    max_tokens: int
    system: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    """Functions."""
    choice: Literal["none", "auto", "required"] = "auto"
    named: str | None = None
    """The tool that must be called."""
    allowed: tuple[str, ...] = ()
    """The tools that may be called."""
    parallel: bool = True
    format: dict[str, Any] | None = None
    """JSON Schema of the content."""
    thinking: Thinking | None = None
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None
    shared: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that all APIs have."""
