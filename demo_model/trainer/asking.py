"""Asks the served model: through the gateway, enforced, and vLLM itself, free."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import httpx

from toolgate_proxy.demo.unconstrained import unconstrained_output
from toolgate_proxy.stack.stack import Stack

from .dialogue import Assistant, Dialogue, Results, Turn, User
from .tools import Call

MAX_TOKENS = 300
CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


@dataclass(frozen=True)
class Given:
    """An answer: the names and arguments of its whole calls as they were written, and its content.
    One that `MAX_TOKENS` cut is no call."""

    calls: tuple[tuple[str, str], ...]
    content: str

    def parsed(self) -> list[Call] | None:
        """None where a call is no JSON."""
        try:
            return [Call(name, json.loads(arguments)) for name, arguments in self.calls]
        except ValueError:
            return None


def request_of(dialogue: Dialogue) -> dict[str, Any]:
    """The OpenAI request whose answer is the dialogue's last turn."""
    messages: list[dict[str, Any]] = []
    if dialogue.system:
        messages.append({"role": "system", "content": dialogue.system})
    ids: list[str] = []
    for index, turn in enumerate(dialogue.turns[:-1]):
        if isinstance(turn, Assistant):
            ids = [f"call_{index}_{number}" for number in range(len(turn.calls))]
        messages += _messages(turn, ids)
    request: dict[str, Any] = {"messages": messages, "temperature": 0, "max_tokens": MAX_TOKENS}
    if dialogue.tools:
        request["tools"] = [tool.openai() for tool in dialogue.tools]
    if not dialogue.thinking:
        request["reasoning_effort"] = "none"
    return request


def _messages(turn: Turn, ids: list[str]) -> list[dict[str, Any]]:
    if isinstance(turn, User):
        return [{"role": "user", "content": turn.text}]
    if isinstance(turn, Results):
        return [
            {"role": "tool", "tool_call_id": call, "content": text}
            for call, text in zip(ids, turn.results, strict=True)
        ]
    message: dict[str, Any] = {"role": "assistant", "content": turn.content or None}
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments, ensure_ascii=False),
                },
            }
            for call_id, call in zip(ids, turn.calls, strict=True)
        ]
    return [message]


def enforced(stack: Stack, dialogue: Dialogue) -> Given:
    """Raises httpx.HTTPError."""
    body = {"model": stack.model, **request_of(dialogue)}
    headers = {"authorization": f"Bearer {stack.master_key}"}
    url = f"{stack.url}/v1/chat/completions"
    answer = httpx.post(url, json=body, headers=headers, timeout=300, trust_env=False)
    answer.raise_for_status()
    choice = answer.json()["choices"][0]
    message = choice["message"]
    functions = [call["function"] for call in message.get("tool_calls") or []]
    if choice.get("toolgate", {}).get("last_call") == "cut":  # docs/answers.md
        functions.pop()
    calls = tuple((function["name"], function["arguments"]) for function in functions)
    return Given(calls, message.get("content") or "")


def free(stack: Stack, dialogue: Dialogue) -> Given:
    """Raises httpx.HTTPError."""
    request = request_of(dialogue)
    return read(unconstrained_output(stack.backend_url, stack.backend_key, stack.model, request))


def read(text: str) -> Given:
    """As a client would read the raw text."""
    text = text.rpartition("</think>")[2].strip()
    calls = []
    for written in CALL.findall(text):
        try:
            call = json.loads(written)
            calls.append((str(call["name"]), json.dumps(call["arguments"], ensure_ascii=False)))
        except (ValueError, KeyError, TypeError):
            calls.append(("", written))
    return Given(tuple(calls), CALL.sub("", text).strip())
