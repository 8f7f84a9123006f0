"""A conversation, and its text in the model's form with what of it is trained on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .kinds import Json, Schema
from .tools import Call, Tool

NO_THOUGHT = "<think>\n\n</think>\n\n"
LIST_BEGIN = "<|im_start|>system\nTools:"

Masked = Literal["nothing", "first token", "head"]
"""What of the last turn is not trained on, since enforcement decides it: nothing, whether it is a
call, or everything before the arguments."""


@dataclass(frozen=True)
class User:
    text: str


@dataclass(frozen=True)
class Results:
    results: tuple[str, ...]
    """As the client sends them, in the order of the calls."""


@dataclass(frozen=True)
class Assistant:
    content: str = ""
    calls: tuple[Call, ...] = ()
    thought: str = ""


Turn = User | Results | Assistant


@dataclass(frozen=True)
class Dialogue:
    category: str
    tools: tuple[Tool, ...]
    turns: tuple[Turn, ...]
    """The last one is the assistant's."""
    system: str = ""
    thinking: bool = False
    masked: Masked = "nothing"
    last_only: bool = False
    """Earlier answers are not to be learned: they were cut short."""

    @property
    def answer(self) -> Assistant:
        last = self.turns[-1]
        if not isinstance(last, Assistant):
            raise TypeError("a dialogue ends with the assistant's turn")
        return last


@dataclass(frozen=True)
class Text:
    text: str
    trained: tuple[tuple[int, int], ...]
    """Spans of characters; a token belongs to the span that its first character is in."""


def render(dialogue: Dialogue) -> Text:
    """The template's text of the conversation, and the answers in it."""
    text = head(dialogue.system, dialogue.tools)
    spans: list[tuple[int, int]] = []
    last = len(dialogue.turns) - 1
    called: tuple[Call, ...] = ()
    for index, turn in enumerate(dialogue.turns):
        if isinstance(turn, User):
            text += f"<|im_start|>user\n{turn.text}<|im_end|>\n"
        elif isinstance(turn, Results):
            pairs = zip(called, turn.results, strict=True)
            said = "\n".join(_response(call, result) for call, result in pairs)
            text += f"<|im_start|>user\n{said}<|im_end|>\n"
        else:
            called = turn.calls
            text += "<|im_start|>assistant\n"
            thinks = dialogue.thinking and index == last
            begin = len(text)
            if thinks:
                text += f"<think>\n{turn.thought}\n</think>\n\n"
            else:
                text += NO_THOUGHT
                begin = len(text)
            if index == last:
                begin += skipped(turn, dialogue.masked)
            text += body(turn) + "<|im_end|>"
            # Earlier answers were made with the thinking that the prompt asks for, or without.
            if index == last or not (dialogue.thinking or dialogue.last_only):
                spans.append((begin, len(text)))
            text += "\n"
    return Text(text, tuple(spans))


def _response(call: Call, result: str) -> str:
    """With what the call was about before it: of several results, each is told by that."""
    about = f"{call.subject}: " if call.subject else ""
    return f"<tool_response>\n{about}{result}\n</tool_response>"


def body(turn: Assistant) -> str:
    if not turn.calls:
        return turn.content
    calls = "\n".join(f"<tool_call>\n{call_text(call)}\n</tool_call>" for call in turn.calls)
    return f"{turn.content}\n{calls}" if turn.content else calls


def call_text(call: Call) -> str:
    return f'{{"name": {dumps(call.name)}, "arguments": {dumps(call.arguments)}}}'


def skipped(turn: Assistant, masked: Masked) -> int:
    """Characters at the start of the turn that are not trained on."""
    if masked == "nothing":
        return 0
    if masked == "first token":
        return 1
    return body(turn).index('"arguments": ') + len('"arguments": ')


def dumps(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def head(system: str, tools: Sequence[Tool]) -> str:
    text = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    lines = "".join(f"\n{line(tool)}" for tool in tools)
    return text + (f"{LIST_BEGIN}{lines}<|im_end|>\n" if tools else "")


def line(tool: Tool) -> str:
    """`Get the weather: get_weather(city, unit?: celsius|fahrenheit)`; the template says the same.

    What is said of a tool comes first, so that a word of it is followed by the name."""
    text = f"{tool.name}({_members(tool.properties, tool.required)})"
    about = tool.description.split("\n")[0].split(". ")[0].strip().rstrip(".")
    return f"{about}: {text}" if about else text


def _members(properties: dict[str, Schema], required: Sequence[str]) -> str:
    parts = []
    for name, schema in properties.items():
        kind = _kind(schema)
        optional = "" if name in required else "?"
        parts.append(f"{name}{optional}" + (f": {kind}" if kind != "string" else ""))
    return ", ".join(parts)


def _kind(schema: Schema) -> str:
    if "enum" in schema:
        return "|".join(str(value) for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        exact = schema.get("minItems")
        times = f"*{exact}" if exact and exact == schema.get("maxItems") else ""
        return f"[{_kind(schema.get('items', {}))}{times}]"
    if kind == "object" and schema.get("properties"):
        return f"{{{_members(schema['properties'], schema.get('required', ()))}}}"
    return str(kind)
