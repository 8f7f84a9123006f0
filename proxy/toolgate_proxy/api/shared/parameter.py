"""Rows of a parameter table, and the reader that parses a request's body by such a table.

One row defines one parameter. The parser and the documentation use the same row, and the row names
the field that receives the value. If several rows name one field, the last row of the table that
the request sets has precedence. docs/api/parameters.md is generated from the rows.

parameters.toml has the rows. A parameter that the table of its API does not have is an error: the
gateway drops no parameter silently.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal, get_args

import orjson

from toolgate_core.errors import UnsupportedParameter

from ...request_fields import nearest
from . import value_types
from .value_types import Object, ValueType

Api = Literal["chat", "responses", "messages"]
APIS: tuple[Api, ...] = get_args(Api)
Origin = Literal["OpenAI", "Anthropic", "vLLM", "LiteLLM", "OpenRouter", "Toolgate"]
Support = Literal["supported", "ignored", "default only", "rejected"]
UNSUPPORTED: tuple[Support, ...] = ("ignored", "rejected")
"""Parameters that accept any value and have no effect, and those that are errors."""


@dataclass(frozen=True)
class Parameter:
    name: str
    note: str
    """What the parameter does. For one that is not supported: the reason, and what to do."""
    type: ValueType | None = None
    """None if the parameter is not supported. One that is ignored may have a type: its value is
    checked, and a response may repeat it."""
    origin: Origin = "OpenAI"
    to: str = ""
    """What receives the value: a member of `ParsedParameters`, and the field of it (`request.stop`)
    if that has another name than the parameter. Other values are read from `values`."""
    members: Mapping[str, str] = field(default_factory=dict)
    """By member of the value: what receives it, as in `to`."""
    stands_for: Mapping[str, str] = field(default_factory=dict)
    """By member of the value: the parameter that it sets, unless the request sets that one."""
    support: Support = "supported"
    defaults: Sequence[object] = ()
    """The accepted values of a parameter whose support is `default only`."""
    without_effect: Sequence[str] = ()
    """Paths of members of the value that are checked and have no effect."""

    def check_unsupported(self, value: object) -> None:
        """Raise UnsupportedParameter unless the parameter is ignored or the value a default."""
        if self.support == "rejected":
            raise UnsupportedParameter(
                f"The parameter {self.name!r} is not supported. {self.note}", param=self.name
            )
        if self.support == "default only" and value not in self.defaults:
            accepted = " or ".join(shown_default(default) for default in self.defaults)
            raise UnsupportedParameter(
                f"{self.name!r} must be {accepted} or left out. {self.note}", param=self.name
            )


Table = Mapping[str, Parameter]
"""The parameters of one surface, by name."""


@dataclass
class ParsedParameters:
    """The parsed values by the name of the parameter, and by the field that receives them: of
    `wire.Sampling`, `wire.Tokenizing`, `ChatRequest` and what it consists of, and of the writer of
    the API."""

    values: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    tokenizing: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    writer: dict[str, Any] = field(default_factory=dict)

    def give(self, to: str, name: str, value: Any) -> None:
        """Give a value to what receives it. `name`: of the parameter or its member."""
        member, _, named = to.partition(".")
        getattr(self, member)[named or name] = value


_FILE = tomllib.loads(resources.files(__package__).joinpath("parameters.toml").read_text("utf-8"))


def read_table(api: Api) -> dict[str, Parameter]:
    """Return the parameters of an API by name."""
    shared = {name: row for name, row in _FILE["all"].items() if api not in row.get("except", ())}
    table = {name: _row(name, row, api) for name, row in (shared | _FILE[api]).items()}
    for support in UNSUPPORTED:
        notes = _FILE[support]["all"] | _FILE[support][api]
        for name, note in notes.items():
            table[name] = Parameter(name, note, support=support)
    return table


def _row(name: str, row: Mapping[str, Any], api: Api) -> Parameter:
    columns = row | row.get(api, {})
    members = {each: columns[each] for each in columns if each not in ("except", *APIS)}
    if "type" in members:
        members["type"] = _type(members["type"])
    if name in _FILE["messages"] and api == "messages":
        members.setdefault("origin", "Anthropic")
    return Parameter(name, **members)


def _type(row: str | dict[str, Any]) -> ValueType:
    if isinstance(row, str):
        return _type(_FILE["types"].get(row, {"kind": row}))
    bounds: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in row.items()
    }
    if "members" in bounds:
        bounds["members"] = {name: _type(each) for name, each in bounds["members"].items()}
        return Object(**bounds)
    kind: type[ValueType] = getattr(value_types, bounds.pop("kind"))
    return kind(**bounds)


def read_parameters(body: Mapping[str, Any], table: Table) -> ParsedParameters:
    """Parse a body. Raise InvalidRequest or UnsupportedParameter for its first invalid field."""
    parsed = ParsedParameters()
    for name, value in body.items():
        if value is None:
            continue
        row = table.get(name)
        if row is None:
            raise unknown(name, table)
        if row.type is None:
            row.check_unsupported(value)
            continue
        parsed.values[name] = row.type.parse(value, name)
    _stand_for(parsed.values, table)
    for row in table.values():
        if row.name in parsed.values:
            _give(row, parsed.values[row.name], parsed)
    return parsed


def _stand_for(values: dict[str, Any], table: Table) -> None:
    """Set the parameters for which members of others stand."""
    for name in [*values]:
        stands_for = table[name].stands_for
        for member in stands_for:
            if member in values[name]:
                values.setdefault(stands_for[member], values[name][member])


def _give(row: Parameter, value: Any, parsed: ParsedParameters) -> None:
    """Give the value to the fields that the row names."""
    if row.to:
        parsed.give(row.to, row.name, value)
    for member in row.members:
        if member in value:
            parsed.give(row.members[member], member, value[member])


def over_defaults(
    body: Mapping[str, Any], defaults: Mapping[str, Any], *, nested: Collection[str]
) -> dict[str, Any]:
    """Return the defaults with the values of a body over them. A null does not replace one.
    `nested`: parameters whose members replace single ones."""
    merged = dict(defaults)
    for name, value in body.items():
        if name in nested and isinstance(value, dict):
            value = {**merged.get(name, {}), **value}
        if value is not None or name not in merged:
            merged[name] = value
    return merged


def shown_default(default: object) -> str:
    """Return a default value as JSON."""
    return orjson.dumps(default).decode()


TABLES: Mapping[Api, Table] = {api: read_table(api) for api in APIS}
CHAT_TABLE, RESPONSES_TABLE, MESSAGES_TABLE = TABLES.values()
FOREIGN: Mapping[str, str] = _FILE["foreign"]
"""Parameters of other servers that clients send often: what to do instead."""
_OF_LITELLM = (
    *("fallbacks", "guardrails", "policies", "tags", "cache", "caching", "litellm_metadata"),
    *("litellm_session_id", "litellm_trace_id"),
    *("drop_params", "request_timeout", "stream_timeout"),
)
LITELLM = {name: CHAT_TABLE[name] for name in _OF_LITELLM}
"""Parameters that LiteLLM's hooks, callbacks and router read. The response does not depend on the
others."""
MAX_LISTED = 20
"""Number of dropped parameters that the header lists."""
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def unknown(name: str, known: Collection[str] = ()) -> UnsupportedParameter:
    """`known`: the names of the API's parameters."""
    shown = name.encode(errors="replace").decode()  # JSON cannot hold half a surrogate pair
    return UnsupportedParameter(f"Unknown parameter {shown!r}. {_advice(name, known)}", param=shown)


def without_unknown(
    body: Mapping[str, Any], known: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the body without unknown parameters, and their names as far as a header can list
    them."""
    kept = {name: value for name, value in body.items() if name in known}
    dropped = [name for name, value in body.items() if name not in known and value is not None]
    shown = [name if _PLAIN.fullmatch(name) else "?" for name in dropped[:MAX_LISTED]]
    return kept, [*shown, *["..."] * (len(dropped) > MAX_LISTED)]


def _advice(name: str, known: Collection[str]) -> str:
    if name in FOREIGN:
        return f"Remove it from the request. {FOREIGN[name]}"
    if meant := nearest(name, known):
        return f"Did you mean {meant!r}? Otherwise, remove it from the request."
    return "Remove it from the request."
