"""One call's arguments against its tool's schema, by jsonschema-rs: the check itself, without any
bound on what it costs (validators.py has the bounds).

Schemas are canonical (core/keys.py): of JSON Schema 2020-12, whatever `$schema` they came with.
Formats are asserted; references are resolved inside the schema alone: nothing is ever fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import isinf
from typing import Any

import jsonschema_rs
from pydantic import BaseModel, ConfigDict

from toolgate_core.pointer import escape

BEYOND_DOUBLES = 400
"""A power of ten that is none of a double's (their largest is 1.8E+308)."""
MAX_DIGITS = 1_000
"""Of an integer that is read as one; Python itself stops at 4,300."""
BACKTRACK_LIMIT = 100_000
"""Steps of one pattern over one string; a pattern that takes more does not match (fancy-regex)."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_WHOLE = re.compile(r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\[^u]")
"""A pair of surrogates, or any escape but by a number."""


class Violation(BaseModel):
    """What is wrong with arguments: where in them, by which keyword, and where that stands in the
    schema. Pointers are JSON Pointers (RFC 6901); no value of the arguments is told."""

    model_config = ConfigDict(frozen=True)

    pointer: str
    keyword: str
    schema_pointer: str


_NOT_JSON = Violation(pointer="", keyword="", schema_pointer="")


class BadSchema(Exception):
    """No valid JSON Schema. `pointer` says where, as far as it is known."""

    def __init__(self, reason: str, pointer: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer


class _NotJson(ValueError):
    pass


class Validator:
    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises BadSchema."""
        try:
            self._compiled = jsonschema_rs.Draft202012Validator(
                schema,
                validate_formats=True,
                offline=True,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT),
            )
        except jsonschema_rs.ValidationError as error:
            raise BadSchema(error.message, _pointer(error.instance_path)) from error
        except (jsonschema_rs.ReferencingError, ValueError) as error:
            raise BadSchema(str(error).partition("\n")[0], "") from error

    def check(self, arguments: str, *, unique: bool) -> Violation | None:
        """The first violation that is found, if there is one. `unique`: no member may come twice;
        otherwise the last one counts, as in every JSON parser that takes such an object. Half of a
        surrogate pair is a violation as what is no JSON is."""
        try:
            value = json.loads(
                arguments,
                object_pairs_hook=_members if unique else None,
                parse_float=_real,
                parse_int=_whole,
                parse_constant=_no_constant,
            )
        except (ValueError, RecursionError):
            return _NOT_JSON
        if half_a_pair(arguments):
            return _NOT_JSON
        if self._compiled.is_valid(value):
            return None
        error = next(iter(self._compiled.iter_errors(value)))
        keyword = [step for step in error.schema_path if isinstance(step, str)][-1:]
        return Violation(
            pointer=_pointer(error.instance_path),
            keyword=keyword[0] if keyword else "",
            schema_pointer=_pointer(error.schema_path),
        )


def _real(text: str) -> Decimal:
    """Exact, as `multipleOf: 0.01` needs it. What no double can hold is made the like of it that is
    still cheap to reckon with: 1e999999999 written out would fill the memory."""
    double = float(text)
    if isinf(double):
        return Decimal(f"{'-' * text.startswith('-')}1E+{BEYOND_DOUBLES}")
    if double == 0:
        nothing = Decimal(text.lower().partition("e")[0]) == 0
        sign = "-" * text.startswith("-")
        return Decimal(0) if nothing else Decimal(f"{sign}1E-{BEYOND_DOUBLES}")
    return Decimal(text)


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) <= MAX_DIGITS else _real(text)


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotJson("a member twice")
    return members


def half_a_pair(text: str) -> bool:
    """Whether JSON has one surrogate without the other: no Unicode, so strict parsers refuse it."""
    if not _SURROGATE.search(text):
        return False
    return _SURROGATE.search(_WHOLE.sub("", text)) is not None


def _no_constant(name: str) -> None:
    raise _NotJson(name)


def _pointer(steps: Iterable[str | int]) -> str:
    return "".join(f"/{escape(str(step))}" for step in steps)
