"""Reading values a client sent: each reader returns the value typed or raises InvalidRequest.

`None` is returned for a field that is missing or null, as OpenAI reads both alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from toolgate_core.errors import InvalidRequest


class Fields:
    """The fields of one JSON object. `param` is its path, by which errors name a field."""

    def __init__(self, values: Mapping[str, Any], param: str = "") -> None:
        self.values = values
        self._param = param

    def path(self, name: str) -> str:
        return f"{self._param}.{name}" if self._param else name

    def wrong(self, name: str, expected: str) -> InvalidRequest:
        path = self.path(name)
        return InvalidRequest(f"{path!r} must be {expected}.", param=path)

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

    def mapping(self, name: str) -> dict[str, Any] | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return value

    def items(self, name: str) -> list[Any] | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "an array")
        return value

    def integer(self, name: str, low: int | None = None, high: int | None = None) -> int | None:
        """Also takes 5.0 for 5, which is the same number in JSON."""
        value = self.values.get(name)
        if value is None:
            return None
        number = as_integer(value)
        if number is None or not _within(number, low, high):
            raise self.wrong(name, f"an integer{_range(low, high)}")
        return number

    def number(
        self, name: str, low: float | None = None, high: float | None = None, *, above: bool = False
    ) -> float | None:
        """`above` excludes `low` itself."""
        value = self.values.get(name)
        if value is None:
            return None
        number = as_number(value)
        if number is None or not _within(number, low, high) or (above and number == low):
            raise self.wrong(name, f"a number{_range(low, high, above=above)}")
        return number


def as_integer(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _within(number: float, low: float | None, high: float | None) -> bool:
    return (low is None or number >= low) and (high is None or number <= high)


def _range(low: float | None, high: float | None, *, above: bool = False) -> str:
    lower = "" if low is None else f" above {low}" if above else f" of at least {low}"
    upper = "" if high is None else f" of at most {high}"
    return " and".join(bound for bound in (lower, upper) if bound)
