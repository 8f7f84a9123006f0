"""A request in no API's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


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
