"""Types of parameter values. A type parses a value and describes what is valid.

A type also lists valid and invalid examples, with its bounds among them. The tests and the fuzzer
send these examples. `collection_types.py` has the types of arrays and objects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from ...request_fields import as_integer, as_number, invalid_value, unknown_value

INT32_MAX = 2**31 - 1
"""Largest count or token ID that the engine's messages and tensors can hold."""
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
POWERS = {INT32_MAX: "2^31-1", INT64_MIN: "-2^63", INT64_MAX: "2^63-1"}


class ValueType(Protocol):
    @property
    def expected(self) -> str:
        """A noun phrase for error messages and for the documentation."""

    def parse(self, value: Any, path: str) -> Any:
        """Return the typed value. Raises InvalidRequest, whose `param` is `path` or below it."""

    def valid(self) -> tuple[Any, ...]:
        """Valid examples."""

    def invalid(self) -> tuple[Any, ...]:
        """Invalid examples."""


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

    def valid(self) -> tuple[Any, ...]:
        near = float(self.minimum) if abs(self.minimum) < INT32_MAX else self.minimum
        return (self.minimum, self.minimum + 1, near, self.maximum)

    def invalid(self) -> tuple[Any, ...]:
        # JSON parsers round integers below 64 bits to a float, which is INT64_MIN.
        low = self.minimum - 1 if self.minimum > INT64_MIN else -(10**30)
        return (low, self.maximum + 1, 10**30, 1.5, True, "1", [1], {})


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

    def valid(self) -> tuple[Any, ...]:
        low = self.minimum + 0.01 if self.exclusive_minimum else self.minimum
        return (low, self.minimum + 1, min(self.maximum, self.minimum + 2))

    def invalid(self) -> tuple[Any, ...]:
        above = () if math.isinf(self.maximum) else (self.maximum + 0.01, 10**30)
        low = self.minimum if self.exclusive_minimum else self.minimum - 0.01
        return (low, *above, True, "1", [1], {})


@dataclass(frozen=True)
class Flag:
    expected = "true or false"

    def parse(self, value: Any, path: str) -> bool:
        if value is True or value is False:
            return value
        raise invalid_value(path, self.expected, value)

    def valid(self) -> tuple[Any, ...]:
        return (True, False)

    def invalid(self) -> tuple[Any, ...]:
        return (0, 1, "true", [], {})


@dataclass(frozen=True)
class Text:
    """`visible` allows printable ASCII characters only, without spaces."""

    minimum: int = 0
    maximum: int | None = None
    visible: bool = False

    @property
    def expected(self) -> str:
        kind = "printable ASCII characters without spaces" if self.visible else "characters"
        if self.maximum is not None:
            return f"a string of {self.minimum} to {self.maximum} {kind}"
        return "a non-empty string" if self.minimum else "a string"

    def parse(self, value: Any, path: str) -> str:
        if (
            not isinstance(value, str)
            or len(value) < self.minimum
            or (self.maximum is not None and len(value) > self.maximum)
            or (self.visible and not all("!" <= character <= "~" for character in value))
        ):
            raise invalid_value(path, self.expected, value)
        return value

    def valid(self) -> tuple[Any, ...]:
        return ("a" * self.minimum, "abc", "a" * (self.maximum or 100))

    def invalid(self) -> tuple[Any, ...]:
        short = ("",) if self.minimum else ()
        long = () if self.maximum is None else ("a" * (self.maximum + 1),)
        spaced = ("two words", "é") if self.visible else ()
        return (*short, *long, *spaced, 3, True, ["a"], {})


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

    def valid(self) -> tuple[Any, ...]:
        return self.values

    def invalid(self) -> tuple[Any, ...]:
        return ("", "unknown", 3, True, [], {})


@dataclass(frozen=True)
class Anything:
    """A value that the surface reads itself. `expected` describes it for the documentation."""

    expected: str

    def parse(self, value: Any, path: str) -> Any:
        return value

    def valid(self) -> tuple[Any, ...]:
        return ()

    def invalid(self) -> tuple[Any, ...]:
        return ()
