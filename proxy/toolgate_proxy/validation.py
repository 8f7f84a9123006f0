"""One call's arguments against its tool's schema, by jsonschema-rs: the check itself, without any
bound on what it costs (validators.py has the bounds).

Formats are asserted, references are resolved inside the schema alone: nothing is ever fetched.
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

DRAFTS: dict[str, type[Any]] = {
    "draft-04": jsonschema_rs.Draft4Validator,
    "draft-06": jsonschema_rs.Draft6Validator,
    "draft-07": jsonschema_rs.Draft7Validator,
    "draft/2019-09": jsonschema_rs.Draft201909Validator,
    "draft/2020-12": jsonschema_rs.Draft202012Validator,
}
"""By what `$schema` says (http://json-schema.org/draft-07/schema#, …)."""
UNNAMED = ("draft/2020-12", "draft-07", "draft-04")
"""Tried in turn where `$schema` names none of them: a schema written for an older draft (a list
under `items`, `exclusiveMinimum: true`) is none of the newest."""


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
    def __init__(self, schema: dict[str, Any], dialect: str | None) -> None:
        """`dialect` is the schema's `$schema`. Raises BadSchema."""
        named = [draft for draft in DRAFTS if dialect is not None and draft in dialect]
        failures: list[BadSchema] = []
        for draft in named or UNNAMED:
            try:
                self._compiled = _compile(schema, draft)
                return
            except BadSchema as failure:
                failures.append(failure)
        raise failures[0]

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


def _compile(schema: dict[str, Any], draft: str) -> Any:
    try:
        return DRAFTS[draft](
            schema,
            validate_formats=True,
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT),
        )
    except jsonschema_rs.ValidationError as error:
        raise BadSchema(error.message, _pointer(error.instance_path)) from error
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise BadSchema(str(error).partition("\n")[0], "") from error


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotJson("a member twice")
    return members


def _no_constant(name: str) -> None:
    raise _NotJson(name)


def _pointer(steps: Iterable[str | int]) -> str:
    return "".join(f"/{escape(str(step))}" for step in steps)
