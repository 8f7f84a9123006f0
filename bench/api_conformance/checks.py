"""What a Responses answer must fulfil, and the form in which answers of both APIs are compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema

MARKUP = re.compile(r"</?tool_call>|</?think>|</?tool_response>|<\|im_(?:start|end)\|>")


@dataclass(frozen=True)
class Answer:
    """An answer of either API."""

    content: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]
    """Name and arguments."""
    complete: tuple[bool, ...]
    """By call: whether the API presents it as complete."""
    cut: bool
    """Whether the maximum number of tokens ended it."""
    usage: tuple[int, int]
    """Tokens of the prompt and of the response."""

    def compared(self) -> tuple[Any, ...]:
        return self.content, self.reasoning, self.calls, self.cut, self.usage


def of_response(body: Mapping[str, Any]) -> Answer:
    def text(kind: str) -> str:
        items = [item for item in body["output"] if item["type"] == kind]
        return "".join(part["text"] for item in items for part in item["content"])

    calls = [item for item in body["output"] if item["type"] == "function_call"]
    usage = body["usage"]
    return Answer(
        text("message"),
        text("reasoning"),
        tuple((call["name"], call["arguments"]) for call in calls),
        tuple(call["status"] == "completed" for call in calls),
        body["status"] == "incomplete",
        (usage["input_tokens"], usage["output_tokens"]),
    )


def of_chat(body: Mapping[str, Any]) -> Answer:
    [choice] = body["choices"]
    message, usage = choice["message"], body["usage"]
    calls = [call["function"] for call in message.get("tool_calls") or []]
    was_cut = (choice.get("toolgate") or {}).get("last_call") == "cut"
    return Answer(
        message.get("content") or "",
        message.get("reasoning_content") or "",
        tuple((call["name"], call["arguments"]) for call in calls),
        tuple(not (was_cut and call is calls[-1]) for call in calls),
        choice["finish_reason"] == "length",
        (usage["prompt_tokens"], usage["completion_tokens"]),
    )


def violations(asked: Mapping[str, Any], answer: Answer) -> Iterator[tuple[str, Any]]:
    """The kind and a detail of each rule that the answer to a Responses request breaks."""
    schemas = {tool["name"]: tool["parameters"] for tool in asked["tools"]}
    choice, most = asked["tool_choice"], asked["max_output_tokens"]
    named = choice["name"] if isinstance(choice, dict) else None
    if found := MARKUP.search(answer.content):
        yield "markup in content", answer.content[max(0, found.start() - 40) :][:80]
    if asked.get("chat_template_kwargs") == {"enable_thinking": False} and answer.reasoning:
        yield "reasoning although off", answer.reasoning[:80]
    if not all(answer.complete[:-1]):
        yield "incomplete call before the last", answer.calls
    if answer.calls and not answer.complete[-1] and not answer.cut:
        yield "incomplete call of a complete response", answer.calls[-1]
    for (name, arguments), is_complete in zip(answer.calls, answer.complete, strict=True):
        if not is_complete:
            continue
        if name not in schemas:
            yield "unknown tool", name
            continue
        if named and name != named:
            yield "another tool than the named one", name
        try:
            value = json.loads(arguments)
        except ValueError as error:
            yield "arguments do not parse", f"{error}: {arguments[-100:]}"
            continue
        wrong = next(jsonschema.Draft202012Validator(schemas[name]).iter_errors(value), None)
        if wrong is not None:
            yield "arguments violate the schema", f"{name}: {wrong.message[:200]}"
    if choice == "none" and answer.calls:
        yield "call although none", answer.calls[0]
    if (choice == "required" or named) and not answer.calls and not answer.cut:
        yield "no call although required", answer.content[:80]
    if len(answer.calls) > 1 and (named or not asked["parallel_tool_calls"]):
        yield "more than one call", len(answer.calls)
    prompt, generated = answer.usage
    if prompt <= 0 or not 0 < generated <= most:
        yield "implausible usage", answer.usage
    if answer.cut and generated < most:
        yield "cut before the maximum", answer.usage
