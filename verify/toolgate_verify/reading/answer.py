"""What an answer says, in the form of no API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class Unreadable(ValueError):
    """The response does not have the form that the API specifies."""


@dataclass
class Usage:
    prompt: int
    """Prompt tokens, cached ones included."""
    completion: int
    total: int | None = None
    """None where the API has no such field."""
    cached: int | None = None
    reasoning: int | None = None


@dataclass
class Call:
    id: str = ""
    name: str = ""
    arguments: str = ""
    """JSON text. In the Messages API, which has a value, its text."""
    complete: bool = True
    """False if the API marks the call as incomplete."""
    custom: bool = False
    """Whether it calls a custom tool: then `arguments` is its input, which is no JSON."""


@dataclass
class Answer:
    id: str = ""
    model: str = ""
    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    finish: str = ""
    """`stop`, `length`, `calls`, `stop_sequence`, or another value as it came."""
    usage: Usage | None = None
    choices: int = 1

    @property
    def cut(self) -> bool:
        return self.finish == "length"


def get(value: Any, *path: str | int) -> Any:
    """Return a member below the value. Raise Unreadable if it is missing."""
    at = "the response"
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError) as error:
            raise Unreadable(f"{at} has no {step!r}") from error
        at = f"`{step}`" if isinstance(step, str) else f"{at}[{step}]"
    return value


def optional(value: Any, *path: str | int) -> Any:
    """Return a member below the value, or None."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def integer(value: Any, name: str) -> int:
    if type(value) is not int or value < 0:
        raise Unreadable(f"`{name}` is {value!r}, not a number of tokens")
    return int(value)


def text_of(value: Any, name: str) -> str:
    """Return a text, where null means none."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unreadable(f"`{name}` is {value!r}, not a string")
    return value
