"""Read typed values from JSON that a client sent. An invalid value raises InvalidRequest.

A field that is missing and a field that is null both read as None, as in OpenAI's API.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_core.pointer import member_path
from toolgate_core.tools import unknown_member

DEFERRED = "defer_loading"
MAX_SHOWN_LENGTH = 40
"""Longest string that an error message repeats."""
NEAR = 0.6
"""Similarity from which another value is suggested."""
QUOTED = re.compile(r'"([^"]+)"')
MAX_SHOWN = 10**18
"""Largest integer that error messages show. Python refuses to print integers of any length."""


class Fields:
    """The fields of one JSON object. `path` is the path of the object in the request's body."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self.values = values
        self._path = path

    @classmethod
    def of(cls, value: object, path: str, expected: str = "an object") -> Fields:
        if not isinstance(value, dict):
            raise invalid_value(path, expected, value)
        return cls(value, path)

    @property
    def place(self) -> str:
        """The path of the object."""
        return self._path

    def path(self, name: str) -> str:
        return member_path(self._path, name)

    def check_known(self, known: Sequence[str]) -> None:
        """Raise UnsupportedParameter for a field that is not in `known`, unless it is false."""
        for name, value in self.values.items():
            if name not in known and value not in (None, False):
                raise unknown_member(name, value, known, self.values, self.path(name))

    def refusal(
        self, name: str, problem: str, kind: type[InvalidRequest] = UnsupportedParameter
    ) -> InvalidRequest:
        """The error for a field: its path, and what is wrong with it."""
        path = self.path(name)
        return kind(f"{path!r} {problem}", param=path)

    def wrong(self, name: str, expected: str) -> InvalidRequest:
        return invalid_value(self.path(name), expected, self.values.get(name))

    def flag(self, name: str) -> bool | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "a string")
        return value

    def given_text(self, name: str, expected: str = "a string") -> str:
        """Return a text that may be empty."""
        text = self.text(name)
        if text is None:
            raise self.wrong(name, expected)
        return text

    def required_text(self, name: str, expected: str = "a non-empty string") -> str:
        text = self.text(name)
        if not text:
            raise self.wrong(name, expected)
        return text

    def mapping(self, name: str) -> dict[str, Any] | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return value

    def inner(self, name: str, expected: str = "an object") -> Fields:
        """Return the fields of a member."""
        value = self.mapping(name)
        if value is None:
            raise self.wrong(name, expected)
        return Fields(value, self.path(name))

    def items(self, name: str) -> list[Any] | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "an array")
        return value


def without_deferred(entries: Iterable[Any]) -> Iterator[Any]:
    """Yield the entries of `tools` without deferred ones, which are no part of the prompt."""
    for entry in entries:
        if isinstance(entry, dict):
            function = entry.get("function")
            if entry.get(DEFERRED) is True:
                continue
            if isinstance(function, dict) and function.get(DEFERRED) is True:
                continue
            if isinstance(nested := entry.get("tools"), list):
                entry = {**entry, "tools": [*without_deferred(nested)]}
        yield entry


def copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters for code that may change them, or keep them."""
    return {name: _copied(value) for name, value in values.items()}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return copied(value)
    return [*map(_copied, value)] if isinstance(value, list) else value


def invalid_value(path: str, expected: str, value: object) -> InvalidRequest:
    """Return the error for a value of the wrong type or out of its range. `expected`: a noun."""
    if value is None:
        return InvalidRequest(f"{path!r} is required. It must be {expected}.", param=path)
    if isinstance(value, str) and value and expected.startswith('"'):
        return unknown_value(path, expected, value, QUOTED.findall(expected))
    text = _shown(value, expected)
    return InvalidRequest(f"{path!r} must be {expected}{text and f', but is {text}'}.", param=path)


def unknown_value(
    path: str, expected: str, value: object, known: Iterable[str], *, suggestion: str = ""
) -> InvalidRequest:
    """Return the error for a value that must be one of the strings `known`. It repeats a short
    string, and names the most similar one. `suggestion`: its form, with `{}`."""
    if not isinstance(value, str):
        return invalid_value(path, expected, value)
    is_shown = len(value) <= MAX_SHOWN_LENGTH and value.isprintable()
    near = nearest(value, known, NEAR) if is_shown else ""
    text = f'"{value}"' if is_shown else "a string"
    hint = f" Did you mean {suggestion.replace('{}', near) or _quoted(near)}?" if near else ""
    return InvalidRequest(f"{path!r} must be {expected}, but is {text}.{hint}", param=path)


def nearest(text: str, known: Iterable[str], similarity: float = 0.75) -> str:
    """Return which of the known names is meant; "" if none is similar."""
    return next(iter(get_close_matches(text[:64], known, n=1, cutoff=similarity)), "")


def _quoted(text: str) -> str:
    return f'"{text}"'


def as_integer(value: object) -> int | None:
    """Return the integer, or None. 5.0 counts as 5: JSON does not distinguish the two."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_number(value: object) -> float | None:
    """Return the finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _shown(value: object, expected: str) -> str:
    """A short description, or "" if the type is not what is wrong. Texts are not repeated."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value}" if abs(value) <= MAX_SHOWN else "out of range"
        case float():
            return f"{value!r}"
    kind = "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
    if kind in expected:
        return "" if value else "empty"
    return f"a{'' if kind == 'string' else 'n'} {kind}"
