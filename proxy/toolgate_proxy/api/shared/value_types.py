"""Types of parameter values. A type parses a value and describes what is valid."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from toolgate_core.errors import InvalidRequest
from toolgate_core.pointer import member_path
from toolgate_core.tools import unknown_member

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
        """Return the typed value. Raise InvalidRequest, whose `param` is `path` or below it."""


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


@dataclass(frozen=True)
class Texts:
    """An array of up to `maximum` non-empty strings of up to `length` characters. `single` also
    accepts one string outside an array. `blank` also accepts strings of white space."""

    maximum: int
    length: int = 1_000
    single: bool = False
    blank: bool = True

    @property
    def expected(self) -> str:
        kind = "non-empty" if self.blank else "non-blank"
        array = f"an array of up to {self.maximum} {kind} strings"
        either = f"a non-empty string or {array}" if self.single else array
        return f"{either} of up to {self.length} characters"

    def parse(self, value: Any, path: str) -> tuple[str, ...]:
        texts = [value] if self.single and isinstance(value, str) else value
        if (
            not isinstance(texts, list)
            or len(texts) > self.maximum
            or not all(isinstance(text, str) and 0 < len(text) <= self.length for text in texts)
            or not (self.blank or all(text.strip() for text in texts))
        ):
            raise invalid_value(path, self.expected, value)
        return tuple(texts)


MAX_TOKEN_IDS = 300_000
"""Maximum number of token IDs in a parameter: more than the largest vocabulary. The vocabulary of
the model is checked when the backend is known (chat/preparation.py)."""


@dataclass(frozen=True)
class TokenIds:
    minimum: int = 0
    maximum: int = MAX_TOKEN_IDS

    @property
    def expected(self) -> str:
        if self.maximum != MAX_TOKEN_IDS:
            return f"an array of up to {self.maximum} token IDs"
        return "a non-empty array of token IDs" if self.minimum else "an array of token IDs"

    def parse(self, value: Any, path: str) -> tuple[int, ...]:
        if not isinstance(value, list) or len(value) < self.minimum or len(value) > self.maximum:
            raise invalid_value(path, self.expected, value)
        ids = [as_integer(token) for token in value]
        known = tuple(token for token in ids if token is not None and 0 <= token <= INT32_MAX)
        if len(known) != len(ids):
            raise invalid_value(path, f"{self.expected} from 0 to {POWERS[INT32_MAX]}", value)
        return known


@dataclass(frozen=True)
class TokenBiases:
    """An object of up to `maximum` numbers by token ID. JSON's keys are strings:
    {"50256": -100}."""

    limit: int
    maximum: int

    @property
    def expected(self) -> str:
        return (
            f"an object of up to {self.maximum} numbers from -{self.limit} to {self.limit} by "
            "token ID"
        )

    def parse(self, value: Any, path: str) -> dict[int, float]:
        if not isinstance(value, dict):
            raise invalid_value(path, self.expected, value)
        if len(value) > self.maximum:
            raise InvalidRequest(
                f"{path!r} must be {self.expected}, but has {len(value):,}. Remove some.",
                param=path,
            )
        biases: dict[int, float] = {}
        for key, given in value.items():
            bias = as_number(given)
            if not _is_token_id(key):
                wrong = "one of its keys is not a token ID"
            elif bias is None or not -self.limit <= bias <= self.limit:
                wrong = f"the bias of token {key} is not in this range"
            else:
                biases[int(key)] = bias
                continue
            raise InvalidRequest(f"{path!r} must be {self.expected}, but {wrong}.", param=path)
        return biases


@dataclass(frozen=True)
class Array:
    """An array of up to `maximum` items, which are read elsewhere. `items` names them for
    descriptions."""

    items: str
    maximum: int = 1_000

    @property
    def expected(self) -> str:
        return f"an array of up to {self.maximum} {self.items}"

    def parse(self, value: Any, path: str) -> list[Any]:
        if not isinstance(value, list) or len(value) > self.maximum:
            raise invalid_value(path, self.expected, value)
        return value


@dataclass(frozen=True)
class JsonObject:
    """An object whose members are read elsewhere."""

    expected: str = "an object"

    def parse(self, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise invalid_value(path, self.expected, value)
        return value


@dataclass(frozen=True)
class TextMap:
    """An object of up to `maximum` strings, with bounds on the characters of names and strings."""

    maximum: int
    name: int
    length: int

    @property
    def expected(self) -> str:
        return (
            f"an object of up to {self.maximum} strings of up to {self.length} characters, with "
            f"names of up to {self.name}"
        )

    def parse(self, value: Any, path: str) -> dict[str, str]:
        if not isinstance(value, dict) or len(value) > self.maximum:
            raise invalid_value(path, self.expected, value)
        for name, text in value.items():
            if len(name) > self.name or not isinstance(text, str) or len(text) > self.length:
                raise InvalidRequest(f"{path!r} must be {self.expected}.", param=path)
        return value


@dataclass(frozen=True)
class Object:
    """An object of known members. A member that is null counts as left out. An unknown member is
    an error unless it is null or false, or unless `extensible` allows others."""

    members: Mapping[str, ValueType]
    required: tuple[str, ...] = ()
    extensible: bool = False

    @property
    def expected(self) -> str:
        *first, last = self.members
        names = f"members {', '.join(first)} and {last}" if first else f"member {last}"
        others = "; others are ignored" if self.extensible else ""
        return f"an object with the {names}{others}"

    def parse(self, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise invalid_value(path, self.expected, value)
        parsed: dict[str, Any] = {}
        for name, given in value.items():
            member = self.members.get(name)
            if member is None:
                if self.extensible or given is None or given is False:
                    continue
                raise unknown_member(name, given, [*self.members], value, member_path(path, name))
            if given is not None:
                parsed[name] = member.parse(given, f"{path}.{name}")
        for name in self.required:
            if name not in parsed:
                raise invalid_value(f"{path}.{name}", self.members[name].expected, None)
        return parsed


def _is_token_id(key: object) -> bool:
    return isinstance(key, str) and len(key) <= 10 and key.isascii() and key.isdigit()


def is_token_type(kind: ValueType | None) -> bool:
    """Return whether the parameter is a collection of token IDs, which have bounds of their own."""
    return isinstance(kind, TokenIds | TokenBiases)
