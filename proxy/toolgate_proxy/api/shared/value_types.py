"""Types of parameter values. A type parses a value and describes what is valid.

`collection_types.py` has the types of arrays and objects.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Protocol

from ...request_fields import as_integer, as_number, invalid_value, unknown_value

INT32_MAX = 2**31 - 1
"""Largest count or token ID that the engine's messages and tensors can hold."""
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
IN_PATH = re.compile(r"[A-Za-z0-9._~:@=+-]+")
POWERS = {INT32_MAX: "2^31-1", INT64_MIN: "-2^63", INT64_MAX: "2^63-1"}


class ValueType(Protocol):
    @property
    def expected(self) -> str:
        """A noun phrase for error messages and for the documentation."""

    def parse(self, value: Any, path: str) -> Any:
        """Return the typed value. Raises InvalidRequest, whose `param` is `path` or below it."""


@dataclass(frozen=True)
class Integer:
    minimum: int
    maximum: int = INT32_MAX

    @property
    def expected(self) -> str:
        if self.maximum == INT32_MAX:
            return f"an integer of at least {self.minimum}"
        low, high = (POWERS.get(bound, bound) for bound in (self.minimum, self.maximum))
        return f"an integer from {low} to {high}"

    def parse(self, value: Any, path: str) -> int:
        number = as_integer(value)
        if number is None or not self.minimum <= number <= self.maximum:
            raise invalid_value(path, self.expected, value)
        return number


@dataclass(frozen=True)
class Number:
    minimum: float = -math.inf
    maximum: float = math.inf
    exclusive_minimum: bool = False

    @property
    def expected(self) -> str:
        if self.exclusive_minimum:
            upper = "" if math.isinf(self.maximum) else f" and at most {self.maximum}"
            return f"a number greater than {self.minimum}{upper}"
        if math.isinf(self.maximum):
            return f"a number of at least {self.minimum}"
        return f"a number from {self.minimum} to {self.maximum}"

    def parse(self, value: Any, path: str) -> float:
        number = as_number(value)
        if (
            number is None
            or not self.minimum <= number <= self.maximum
            or (self.exclusive_minimum and number == self.minimum)
        ):
            raise invalid_value(path, self.expected, value)
        return number


@dataclass(frozen=True)
class Flag:
    expected = "true or false"

    def parse(self, value: Any, path: str) -> bool:
        if value is True or value is False:
            return value
        raise invalid_value(path, self.expected, value)


@dataclass(frozen=True)
class Text:
    """`in_path` allows only characters that a segment of a URL's path has unescaped."""

    minimum: int = 0
    maximum: int | None = None
    in_path: bool = False

    @property
    def expected(self) -> str:
        kind = "ASCII letters, digits or -._~:@=+" if self.in_path else "characters"
        if self.maximum is not None:
            return f"a string of {self.minimum} to {self.maximum} {kind}"
        return "a non-empty string" if self.minimum else "a string"

    def parse(self, value: Any, path: str) -> str:
        if (
            not isinstance(value, str)
            or len(value) < self.minimum
            or (self.maximum is not None and len(value) > self.maximum)
            or (self.in_path and IN_PATH.fullmatch(value) is None)
        ):
            raise invalid_value(path, self.expected, value)
        return value


@dataclass(frozen=True)
class Choice:
    values: tuple[str, ...]

    @property
    def expected(self) -> str:
        *most, last = (f'"{value}"' for value in self.values)
        return f"{', '.join(most)} or {last}" if most else last

    def parse(self, value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in self.values:
            raise unknown_value(path, self.expected, value, self.values)
        return value


@dataclass(frozen=True)
class Anything:
    """A value that the surface reads itself. `expected` describes it for the documentation."""

    expected: str

    def parse(self, value: Any, path: str) -> Any:
        return value
