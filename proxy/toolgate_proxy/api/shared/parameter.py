"""Rows of a parameter table, and the reader that parses a request's body by such a table.

One row defines one parameter. The parser and the documentation use the same row, and the row names
the field that receives the value. If several rows name one field, the last row of the table that
the request sets has precedence. docs/api/parameters.md is generated from the rows.

A surface builds its table with `make_table` from the shared rows and from rows of its own. If its
API has another name for a parameter, it copies the row with `dataclasses.replace(row, name=…)`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import orjson

from toolgate_core.errors import UnsupportedParameter

from ... import removed
from ...request_fields import nearest
from .value_types import ValueType

Origin = Literal["OpenAI", "Anthropic", "vLLM", "LiteLLM", "OpenRouter", "Toolgate"]
Support = Literal["supported", "ignored", "default only", "rejected"]


@dataclass(frozen=True)
class Parameter:
    name: str
    type: ValueType | None
    """None if the parameter is not supported. One that is ignored may have a type: its value is
    checked, and a response may repeat it."""
    note: str
    """What the parameter does. For one that is not supported: the reason, and what to do."""
    origin: Origin = "OpenAI"
    to: str = ""
    """What receives the value: a member of `ParsedParameters`, and the field of it (`request.stop`)
    if that has another name than the parameter. Other values are read from `values`."""
    means: Mapping[object, object] = field(default_factory=dict)
    """What the field receives instead of a value of the parameter."""
    members: Mapping[str, str] = field(default_factory=dict)
    """By member of the value: what receives it, as in `to`."""
    stands_for: Mapping[str, str] = field(default_factory=dict)
    """By member of the value: the parameter that it sets, unless the request sets that one."""
    support: Support = "supported"
    defaults: tuple[object, ...] = ()
    """The accepted values of a parameter whose support is `default only`."""
    without_effect: tuple[str, ...] = ()
    """Paths of members of the value that are checked and have no effect."""

    def field_of(self, kind: str) -> str | None:
        """Return the field of a member of `ParsedParameters` that receives the value."""
        member, _, named = self.to.partition(".")
        return (named or self.name) if member == kind else None

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
    shortening: dict[str, Any] = field(default_factory=dict)
    writer: dict[str, Any] = field(default_factory=dict)

    def give(self, to: str, name: str, value: Any) -> None:
        """Give a value to what receives it. `name`: of the parameter or its member."""
        member, _, named = to.partition(".")
        getattr(self, member)[named or name] = value


def make_table(rows: Iterable[Parameter]) -> dict[str, Parameter]:
    """Raise ValueError if two rows have the same name."""
    table: dict[str, Parameter] = {}
    for row in rows:
        if row.name in table:
            raise ValueError(f"two rows define the parameter {row.name!r}")
        table[row.name] = row
    return table


def read_parameters(body: Mapping[str, Any], table: Table) -> ParsedParameters:
    """Parse a body. Raise InvalidRequest or UnsupportedParameter for its first invalid field."""
    parsed = ParsedParameters()
    for name, given in body.items():
        if given is None:
            continue
        row = table.get(name)
        if row is None:
            raise unknown(name, table)
        if row.type is None:
            row.check_unsupported(given)
            continue
        parsed.values[name] = row.type.parse(given, name)
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
        parsed.give(row.to, row.name, row.means[value] if row.means else value)
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


def rows(origin: Origin, to: str = "", /, **given: tuple[ValueType, str]) -> tuple[Parameter, ...]:
    """Rows of parameters that are alike, by their names: types and notes."""
    return tuple(Parameter(name, kind, note, origin, to) for name, (kind, note) in given.items())


def _unsupported(support: Support, origin: Origin, /, **notes: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, None, notes[name], origin, support=support) for name in notes)


ignored, rejected = partial(_unsupported, "ignored"), partial(_unsupported, "rejected")
"""Rows of parameters that accept any value and have no effect, and of those that are errors."""


def default_only(origin: Origin, name: str, *defaults: object, note: str) -> Parameter:
    return Parameter(name, None, note, origin, support="default only", defaults=defaults)


def shown_default(default: object) -> str:
    """Return a default value as JSON."""
    return orjson.dumps(default).decode()


_SET_AT_BACKEND = "The operator sets it at the backend."
_PREFIX_CACHE = "vLLM manages the prefix cache."
_ONE_GATEWAY = "The gateway's operator decides which deployments serve a model."

FOREIGN: Mapping[str, str] = {
    "input": "It is a parameter of the Responses API. Use `messages`, or POST /v1/responses.",
    # Ollama
    "num_ctx": f"The context length is that of the backend (`--max-model-len`). {_SET_AT_BACKEND}",
    "num_predict": "Use `max_tokens`.",
    "repeat_penalty": "Use `repetition_penalty`.",
    "repeat_last_n": "`repetition_penalty` counts all tokens.",
    "think": 'Use `reasoning_effort`; "none" turns the reasoning off.',
    "keep_alive": "The model stays loaded.",
    "options": "Send its members as parameters of the request.",
    "format": "Use `response_format`.",
    "mirostat": "vLLM does not support this sampler. Use `top_p` or `min_p`.",
    # llama.cpp
    "n_predict": "Use `max_tokens`.",
    "cache_prompt": _PREFIX_CACHE,
    "grammar": "Use `response_format`, or a custom tool with a grammar.",
    "typical_p": "vLLM does not support this sampler. Use `top_p` or `min_p`.",
    "tfs_z": "vLLM does not support this sampler. Use `top_p` or `min_p`.",
    "top_a": "vLLM does not support this sampler. Use `top_p` or `min_p`.",
    # Text Generation Inference and transformers
    "max_new_tokens": "Use `max_tokens`.",
    "do_sample": "`temperature` 0 turns sampling off.",
    # OpenRouter
    "provider": _ONE_GATEWAY,
    "models": _ONE_GATEWAY,
    "route": _ONE_GATEWAY,
    "transforms": "Prompts are never shortened without `truncate_prompt_tokens`.",
    "plugins": "Plug-ins of other gateways are not supported.",
    # Other vendors
    "random_seed": "Use `seed`.",
    "safe_prompt": "Write it into a system message.",
    "thinking": 'Use `reasoning_effort`; "none" turns the reasoning off.',
    "cached_content": _PREFIX_CACHE,
}
"""Parameters of other servers that clients send often."""


MAX_LISTED = 20
"""Number of dropped parameters that the header lists."""
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def unknown(name: str, known: Collection[str] = ()) -> UnsupportedParameter:
    """`known`: the names of the API's parameters."""
    shown = name.encode(errors="replace").decode()  # JSON can't hold half a surrogate pair
    return UnsupportedParameter(f"Unknown parameter {shown!r}. {_advice(name, known)}", param=shown)


def without_unknown(
    body: Mapping[str, Any], known: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """The body without unknown parameters, and their names as far as a header can list them."""
    kept = {name: value for name, value in body.items() if name in known}
    dropped = [name for name, value in body.items() if name not in known and value is not None]
    shown = [name if _PLAIN.fullmatch(name) else "?" for name in dropped[:MAX_LISTED]]
    return kept, [*shown, *["..."] * (len(dropped) > MAX_LISTED)]


def _advice(name: str, known: Collection[str]) -> str:
    if name in removed.PARAMETERS:
        return f"Remove it from the request. {removed.PARAMETERS[name]}"
    if name in FOREIGN:
        return f"Remove it from the request. {FOREIGN[name]}"
    if meant := nearest(name, known):
        return f"Did you mean {meant!r}? Otherwise, remove it from the request."
    return "Remove it from the request."
