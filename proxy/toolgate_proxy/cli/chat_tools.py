"""The tools of the chat. They read nothing and change nothing on this machine."""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MAX_EXPRESSION = 200
"""Maximum number of characters of an expression."""
MAX_VALUE = 1e15
"""Bound of operands, so that no operation takes long."""
OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


class ToolFailed(Exception):
    """A call has no result. The model reads the message instead."""


@dataclass(frozen=True)
class ChatTool:
    """A tool with one argument, a string."""

    name: str
    description: str
    argument: str
    example: str
    run: Callable[[str], object]
    """Raises ToolFailed."""

    @property
    def definition(self) -> dict[str, Any]:
        parameters = {
            "type": "object",
            "properties": {self.argument: {"type": "string", "description": self.example}},
            "required": [self.argument],
            "additionalProperties": False,
        }
        function = {"name": self.name, "description": self.description, "strict": True}
        return {"type": "function", "function": function | {"parameters": parameters}}


def calculate(text: str) -> float:
    if len(text) > MAX_EXPRESSION:
        raise ToolFailed(f"The expression is longer than {MAX_EXPRESSION} characters.")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ToolFailed("The expression is not arithmetic.") from None
    except (ZeroDivisionError, OverflowError) as error:
        raise ToolFailed(f"The expression has no value: {error}.") from None


def _value(node: ast.AST) -> float:
    """Compute the value of an expression. Raises ToolFailed, ZeroDivisionError and
    OverflowError."""
    value: float
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        value = node.value
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        value = OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    elif isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        value = OPERATORS[type(node.op)](_value(node.operand))
    else:
        raise ToolFailed("Use numbers, parentheses and the operators + - * / // %.")
    if abs(value) > MAX_VALUE:
        raise ToolFailed(f"A value is larger than {MAX_VALUE:.0e}.")
    return value


def current_time(name: str) -> str:
    try:
        return datetime.now(ZoneInfo(name)).isoformat(timespec="seconds")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ToolFailed(
            f"There is no time zone {name[:60]!r}. Use an IANA name, such as Europe/Berlin."
        ) from None


TOOLS = {
    tool.name: tool
    for tool in (
        ChatTool(
            "get_current_time",
            "The current date and time in a time zone.",
            "timezone",
            "IANA name, e.g. Europe/Berlin",
            current_time,
        ),
        ChatTool(
            "calculate",
            "The value of an arithmetic expression.",
            "expression",
            "for example (2 + 3) * 4",
            calculate,
        ),
    )
}


def result(name: str, arguments: str) -> str:
    """Return the result of a call as JSON."""
    tool = TOOLS[name]
    try:
        return json.dumps({"result": tool.run(str(json.loads(arguments)[tool.argument]))})
    except ToolFailed as error:
        return json.dumps({"error": str(error)})
