"""A tool, a request for it, and the calls that answer the request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .kinds import Json, Schema
from .words import Language

Mood = Literal["order", "question", "statement", "value"]
"""Of a request's words. A statement is what is known or wished: `the door is open`, `I need a car`;
`value` one that begins with a value: `Rome is cold`."""


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    properties: dict[str, Schema]
    required: tuple[str, ...]

    def openai(self) -> dict[str, Any]:
        """As a request carries it."""
        parameters = {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
        }
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Json]

    @property
    def subject(self) -> str:
        """What it is about: its first short text, or nothing. The template says the same."""
        for value in self.arguments.values():
            if isinstance(value, str) and 0 < len(value) <= 32 and len(value.split()) <= 4:
                return value
        return ""


@dataclass(frozen=True)
class Task:
    """What one part of a request asks for."""

    group: str
    """Tools of other groups do not answer it."""
    language: Language
    tool: Tool
    request: str
    """The words, without a capital or a full stop."""
    mood: Mood
    calls: tuple[Call, ...]
    siblings: tuple[Tool, ...] = ()
    """Tools of the same group that do something else."""
    follow_up: tuple[str, Call] | None = None
    """What may be asked next in short, and the call that answers it."""
    results: tuple[str, ...] = field(default=())
    """Forms of results: `key=kind, key=kind`."""
