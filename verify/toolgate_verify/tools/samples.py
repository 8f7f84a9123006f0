"""Reads recorded requests: one chat completion body per line, as vendors' test sets have them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .tool import Tool
from .user_tools import NoTools, tools_of

LABELS = ("model", "check_type", "expected_tool_call", "id")
"""Members of a line that are not sent. `model` is that of the run."""


@dataclass(frozen=True)
class Sample:
    number: int
    body: dict[str, Any]
    tools: tuple[Tool, ...]
    expected: bool | None
    """Whether a call is expected, where the line has a label."""


def read_samples(path: Path) -> list[Sample]:
    """Raises NoTools if a line is no request."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise NoTools(f"{path} can't be read: {error}") from error
    found = [line for line in lines if line.strip()]
    if not found:
        raise NoTools(f"{path} has no requests")
    return [_sample(path, number, line) for number, line in enumerate(found, 1)]


def _sample(path: Path, number: int, line: str) -> Sample:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise NoTools(f"{path}, line {number}: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise NoTools(f"{path}, line {number}: no request with `messages`")
    expected = value.get("expected_tool_call")
    tools = tuple(tools_of(f"{path}, line {number}", value.get("tools") or []))
    body = {name: each for name, each in value.items() if name not in LABELS}
    return Sample(number, body, tools, expected if isinstance(expected, bool) else None)
