"""Validation of one call's arguments against its tool's schema by jsonschema-rs, without limits on
its cost (service.py has them), and what workers do.

Schemas are canonical (core/toolgate_core/schema/canonical.py): JSON Schema 2020-12, independent of
their original `$schema`. Formats are asserted. References are resolved only inside the schema, and
nothing is ever fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import isinf
from typing import Any

import jsonschema_rs
from pydantic import BaseModel, ConfigDict

from toolgate_core.custom_tools import INPUT, Grammar
from toolgate_core.killable import Work
from toolgate_core.pointer import pointer_of
from toolgate_core.schema.canonical import GRAMMAR
from toolgate_core.schema.keywords import WITH_YEAR, YEAR_ZERO

from .grammar_reader import read_grammar

BEYOND_DOUBLES = 400
"""A power of ten beyond the range of doubles (up to 1.8E+308)."""
_HUGE = f"1{'0' * BEYOND_DOUBLES}.{'0' * BEYOND_DOUBLES}1"
MAX_DIGITS = 1_000
"""Maximum length of a number that is parsed as an integer. Python's own limit is 4,300."""
BACKTRACK_LIMIT = 100_000
"""Maximum number of steps for one pattern and one string. Beyond it, a pattern does not match."""


def _date_check(name: str) -> Callable[[str], bool]:
    """Return jsonschema-rs's check of a format, without the year 0000. RFC 3339 allows it, but
    Python's `date` and `datetime` refuse it, and masks exclude it."""
    check = jsonschema_rs.Draft202012Validator({"format": name}, validate_formats=True)
    return lambda text: not text.startswith(YEAR_ZERO) and check.is_valid(text)


_DATES = {name: _date_check(name) for name in WITH_YEAR}
_HALF = re.compile("[\ud800-\udfff]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_COMPLETE = re.compile(r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\[^u]")
"""A pair of surrogates, or an escape sequence that is not numeric."""


class Violation(BaseModel):
    """The first violation in arguments, without their values. Pointers are those of RFC 6901."""

    model_config = ConfigDict(frozen=True)

    pointer: str
    """Location in the arguments."""
    keyword: str
    schema_pointer: str
    """Location of the keyword in the schema."""


_NOT_JSON = Violation(pointer="", keyword="", schema_pointer="")


class InvalidSchema(Exception):
    """The schema is not valid JSON Schema. `pointer` is the location, "" if it is unknown."""

    def __init__(self, reason: str, pointer: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer


class _NotJson(ValueError):
    pass


class Validator:
    def __init__(self, schema: dict[str, Any]) -> None:
        """Raise InvalidSchema."""
        try:
            self._compiled = jsonschema_rs.Draft202012Validator(
                schema,
                validate_formats=True,
                formats=_DATES,
                offline=True,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT),
            )
        except jsonschema_rs.ValidationError as error:
            raise InvalidSchema(error.message, pointer_of(error.instance_path)) from error
        except (jsonschema_rs.ReferencingError, ValueError) as error:
            raise InvalidSchema(str(error).partition("\n")[0], "") from error

    def check(self, arguments: str, *, unique: bool) -> Violation | None:
        """Return the first violation, or None. With `unique`, duplicate members of an object are a
        violation; otherwise the last one counts, as in most JSON parsers. Invalid JSON and half of
        a surrogate pair are violations."""
        try:
            value = json.loads(
                arguments,
                object_pairs_hook=_members if unique else None,
                parse_float=_decimal,
                parse_int=_integer,
                parse_constant=_no_constant,
            )
        except (ValueError, RecursionError):
            return _NOT_JSON
        if has_lone_surrogate(arguments):
            return _NOT_JSON
        if self._compiled.is_valid(value):
            return None
        error = next(iter(self._compiled.iter_errors(value)))
        keyword = [step for step in error.schema_path if isinstance(step, str)][-1:]
        return Violation(
            pointer=pointer_of(error.instance_path),
            keyword=keyword[0] if keyword else "",
            schema_pointer=pointer_of(error.schema_path),
        )


def _decimal(text: str) -> Decimal:
    """Read a fraction exactly, because `multipleOf: 0.01` requires it. Numbers beyond the range of
    doubles are replaced: 1e999999999 written as digits would fill the memory. Most parsers read
    them as infinity, which is no multiple and no integer, so they are replaced by a fraction."""
    double = float(text)
    if isinf(double):
        return Decimal(f"{'-' * text.startswith('-')}{_HUGE}")
    if double == 0:
        is_zero = Decimal(text.lower().partition("e")[0]) == 0
        sign = "-" * text.startswith("-")
        return Decimal(0) if is_zero else Decimal(f"{sign}1E-{BEYOND_DOUBLES}")
    return Decimal(text)


def _integer(text: str) -> int:
    """Replace an integer of more than MAX_DIGITS by one beyond the range of doubles."""
    if len(text) <= MAX_DIGITS:
        return int(text)
    return int(f"{'-' * text.startswith('-')}1{'0' * BEYOND_DOUBLES}")


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotJson("duplicate member")
    return members


def has_lone_surrogate(text: str) -> bool:
    """Return whether JSON text contains half of a surrogate pair, which strict parsers reject."""
    if has_mark(text):
        return True
    if not _SURROGATE.search(text):
        return False
    return _SURROGATE.search(_COMPLETE.sub("", text)) is not None


def has_mark(text: str) -> bool:
    """Return whether the arguments of a call contain what stands for a mark: half of a surrogate
    pair that is not escaped. Masks prevent it."""
    return not text.isascii() and _HALF.search(text) is not None


def _no_constant(name: str) -> None:
    raise _NotJson(name)


class Job(BaseModel):
    """A validation with unknown cost, for a worker process."""

    tool_schema: dict[str, Any]
    grammar: Grammar | None = None
    """Read the arguments' input by this grammar instead of validating the arguments."""
    arguments: str | None
    """None: check only that the schema is valid."""
    unique: bool = False


class JobResult(BaseModel):
    is_read: bool = True
    """Whether the grammar could be read."""
    violation: Violation | None = None
    schema_error: str | None = None
    schema_error_pointer: str = ""


def run(job: Job) -> JobResult:
    if job.grammar is not None and job.arguments is not None:
        return _read(job.grammar, json.loads(job.arguments)[INPUT])
    try:
        validator = Validator(job.tool_schema)
    except InvalidSchema as error:
        return JobResult(schema_error=error.reason, schema_error_pointer=error.pointer)
    if job.arguments is None:
        return JobResult()
    return JobResult(violation=validator.check(job.arguments, unique=job.unique))


def _read(grammar: Grammar, text: str) -> JobResult:
    matches = read_grammar(grammar)
    if matches is None:
        return JobResult(is_read=False)
    violation = Violation(pointer=f"/{INPUT}", keyword=GRAMMAR, schema_pointer="")
    return JobResult(violation=None if matches(text) else violation)


def work(_: bytes) -> Work:
    return Work(Job, lambda job: [run(job)])
