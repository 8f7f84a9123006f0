"""A request in no API's form, and its body in each API that can express it."""

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

    def bodies(self) -> dict[str, dict[str, Any]]:
        """By name of the surface. The Messages API has neither logprobs nor allowed tools."""
        made = {"chat completions": self._chat(), "responses": self._responses()}
        if self.top_logprobs is None and not self.allowed:
            made["messages"] = self._messages()
        return made

    @property
    def _continued(self) -> dict[str, Any]:
        """In the Messages API, a last message of the assistant is always continued."""
        last = self.turns[-1]
        return {"continue_final_message": True} if isinstance(last, Assistant) else {}

    def _openai(self) -> dict[str, Any]:
        """What chat completions and Responses have in common."""
        body: dict[str, Any] = {"model": "tiny", **self.shared, **self._continued}
        if not self.parallel:
            body["parallel_tool_calls"] = False
        if self.stop:
            body["stop"] = [*self.stop]
        if self.top_logprobs is not None:
            body["top_logprobs"] = self.top_logprobs
        if self.thinking is not None and self.thinking.effort is None:
            body["enable_thinking"] = self.thinking.on
            if self.thinking.budget is not None:
                body["reasoning_budget"] = self.thinking.budget
        return body

    def _chat(self) -> dict[str, Any]:
        def named(name: str) -> dict[str, Any]:
            return {"type": "function", "function": {"name": name}}

        body = self._openai() | {"max_tokens": self.max_tokens, "messages": [*self._chat_turns()]}
        if self.tools:
            body["tools"] = [{"type": "function", "function": tool} for tool in self.tools]
            body["tool_choice"] = named(self.named) if self.named else self.choice
        if self.allowed:
            allowed = {"mode": self.choice, "tools": [named(name) for name in self.allowed]}
            body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
        if self.format is not None:
            form = {"name": "x", "schema": self.format}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if self.thinking is not None and self.thinking.effort is not None:
            body["reasoning_effort"] = self.thinking.effort
        if self.top_logprobs is not None:
            body["logprobs"] = True
        return body

    def _chat_turns(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        if self.system:
            messages.append({"role": "system", "content": self.system})
        for turn in self.turns:
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

    def _responses(self) -> dict[str, Any]:
        def named(name: str) -> dict[str, Any]:
            return {"type": "function", "name": name}

        body = self._openai() | {"max_output_tokens": self.max_tokens, "input": self._items()}
        if self.system:
            body["instructions"] = self.system
        if self.tools:
            body["tools"] = [{"type": "function", **tool} for tool in self.tools]
            body["tool_choice"] = named(self.named) if self.named else self.choice
        if self.allowed:
            tools = [named(name) for name in self.allowed]
            body["tool_choice"] = {"type": "allowed_tools", "mode": self.choice, "tools": tools}
        if self.format is not None:
            form = {"type": "json_schema", "name": "x", "schema": self.format}
            body["text"] = {"format": form}
        if self.thinking is not None and self.thinking.effort is not None:
            body["reasoning"] = {"effort": self.thinking.effort}
        if self.top_logprobs is not None:
            body["include"] = [LOGPROBS]
        return body

    def _items(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for turn in self.turns:
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

    def _messages(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": "tiny",
            **self.shared,
            "max_tokens": self.max_tokens,
            "messages": self._message_turns(),
        }
        if self.system:
            body["system"] = self.system
        if self.tools:
            body["tools"] = [_messages_tool(tool) for tool in self.tools]
        named = {"type": "tool", "name": self.named}
        choice = named if self.named else {"type": CHOICES[self.choice]}
        body["tool_choice"] = {**choice, "disable_parallel_tool_use": not self.parallel}
        if self.stop:
            body["stop_sequences"] = [*self.stop]
        config: dict[str, Any] = {}
        if self.format is not None:
            config["format"] = {"type": "json_schema", "schema": self.format}
        if self.thinking is not None:
            body["thinking"] = {"type": "adaptive" if self.thinking.on else "disabled"}
            if self.thinking.budget is not None:
                budget = self.thinking.budget
                body["thinking"] = {"type": "enabled", "budget_tokens": budget}
            if self.thinking.effort is not None:
                config["effort"] = self.thinking.effort
        if config:
            body["output_config"] = config
        return body

    def _message_turns(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        for turn in self.turns:
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
                            "content": _content(
                                result.texts, "text", _messages_image(result.image)
                            ),
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
