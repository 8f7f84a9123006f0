"""A request in the form of no API. Each API has a function that makes its body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..tools.tool import Tool


@dataclass(frozen=True)
class User:
    text: str


@dataclass(frozen=True)
class CallTurn:
    """A call in the history."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Assistant:
    text: str = ""
    calls: tuple[CallTurn, ...] = ()
    reasoning: str = ""


@dataclass(frozen=True)
class ToolResult:
    id: str
    text: str
    parts: bool = False
    """Whether the content is an array of parts."""


Turn = User | Assistant | ToolResult
STORY = (User("Tell me a long story about a lighthouse keeper."),)


@dataclass(frozen=True)
class Ask:
    turns: tuple[Turn, ...] = STORY
    system: str = ""
    tools: tuple[Tool, ...] = ()
    strict: bool | None = True
    """Whether the tools are `strict`; None: not set. (Responses' default is strict.)"""
    choice: str = ""
    """`none`, `auto`, `required`, or `=NAME` of a tool; empty: not set."""
    allowed: tuple[str, ...] = ()
    """Tools of a choice `allowed_tools` (OpenAI's APIs)."""
    parallel: bool | None = None
    max_tokens: int = 64
    temperature: float | None = 0
    stop: tuple[str, ...] = ()
    format: Mapping[str, Any] | None = None
    """JSON Schema of the text."""
    reasoning: str | None = "none"
    """The effort, as OpenAI's APIs name it; None: not set."""
    adaptive: bool = False
    """Whether the model itself limits its reasoning (Messages API), instead of a budget."""
    eager: bool = False
    """Whether arguments are streamed before they are known to be JSON (Messages API)."""
    stream: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the API's own body."""
