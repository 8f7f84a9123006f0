"""Judges calls in the demo's comparison: are they valid, and where do they break?

The same rules apply to the raw text of a model and to a response of the gateway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from toolgate_core.pointer import pointer_of

_CALL = re.compile(r"<tool_call>(.*?)(</tool_call>|$)", re.DOTALL)


@dataclass(frozen=True)
class Call:
    name: str
    arguments: Any
    """The parsed JSON."""


@dataclass(frozen=True)
class Problem:
    """Why a sample is not valid."""

    place: str
    """A JSON Pointer into the tool's schema; "" for problems that have no such place."""
    kind: str
    """The keyword, or what else is wrong. Problems with the same place and kind are alike."""
    message: str

    def __str__(self) -> str:
        return f"{self.place} {self.message}".lstrip()


def read_calls(text: str) -> list[Call] | Problem:
    """The calls of a raw text in the form of Hermes and Qwen3: JSON between <tool_call> marks."""
    calls: list[Call] = []
    for written, end in _CALL.findall(text.rpartition("</think>")[2]):
        if not end:
            return Problem("", "open", "the last call has no end")
        call = read_json(written)
        if isinstance(call, Problem):
            return call
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return Problem("", "name", "a call has no name")
        calls.append(Call(call["name"], call.get("arguments")))
    return calls


def read_json(text: str) -> Any:
    """The value, or a Problem."""
    try:
        return json.loads(text)
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        return Problem("", "json", f"the call is not JSON ({reason})")


def problem_of(calls: Sequence[Call], tool: dict[str, Any]) -> Problem | None:
    """The first problem of a response to a request that requires a call of `tool`."""
    function = tool["function"]
    if not calls:
        return Problem("", "none", "there is no call")
    validator = jsonschema_rs.Draft202012Validator(function["parameters"], validate_formats=True)
    for call in calls:
        if call.name != function["name"]:
            return Problem("", "unknown", f"there is no tool {call.name!r}")
        for error in validator.iter_errors(call.arguments):
            return _violation(error)
    return None


def _violation(error: jsonschema_rs.ValidationError) -> Problem:
    *place, keyword = [str(step) for step in error.schema_path] or [""]
    message = error.message
    if keyword == "format":  # the article of the library is part of its text
        message = message.replace('a "date-time"', "a date-time")
    if keyword == "anyOf":
        message = message.partition(" is not valid")[0] + " has none of the allowed forms"
    return Problem(pointer_of(place), keyword, message)
