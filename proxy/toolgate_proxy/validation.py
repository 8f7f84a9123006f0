"""One call's arguments against its tool's schema, by jsonschema-rs: the check itself, without any
bound on what it costs (validators.py has the bounds).

Schemas are canonical (core/keys.py): of JSON Schema 2020-12, whatever `$schema` they came with.
Formats are asserted; references are resolved inside the schema alone: nothing is ever fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import jsonschema_rs
from pydantic import BaseModel, ConfigDict

from toolgate_core.pointer import escape

BACKTRACK_LIMIT = 100_000
"""Steps of one pattern over one string; a pattern that takes more does not match (fancy-regex)."""


class Violation(BaseModel):
    """What is wrong with arguments: where in them, by which keyword, and where that stands in the
    schema. Pointers are JSON Pointers (RFC 6901); no value of the arguments is told."""

    model_config = ConfigDict(frozen=True)

    pointer: str
    keyword: str
    schema_pointer: str


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

    def check(self, arguments: str) -> Violation | None:
        """The first violation that is found, if there is one."""
        try:
            value = json.loads(
                arguments,
                object_pairs_hook=_members,
                parse_float=Decimal,
                parse_constant=_no_constant,
            )
        except (ValueError, RecursionError):
            return Violation(pointer="", keyword="", schema_pointer="")
        if self._compiled.is_valid(value):
            return None
        error = next(iter(self._compiled.iter_errors(value)))
        keyword = [step for step in error.schema_path if isinstance(step, str)][-1:]
        return Violation(
            pointer=_pointer(error.instance_path),
            keyword=keyword[0] if keyword else "",
            schema_pointer=_pointer(error.schema_path),
        )


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotJson("a member twice")
    return members


def _no_constant(name: str) -> None:
    raise _NotJson(name)


def _pointer(steps: Iterable[str | int]) -> str:
    return "".join(f"/{escape(str(step))}" for step in steps)
