"""`tools` of the Messages API: they have a schema of the client, or are those of a feature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, Words, refuse
from toolgate_core.toolset import Toolset

from ...features.feature import Used
from ...request_fields import Fields
from ..shared.tools import (
    DEFERRED,
    WRITTEN,
    Entry,
    HostedTools,
    function_entry,
    other_form,
    parse_entries,
    read_toolset,
)
from .feature import MessagesFeature

CLIENTS = (None, "custom")
"""Types of tools that clients define."""
FIELDS = (
    "type",
    "name",
    "description",
    "input_schema",
    "strict",
    "cache_control",
    "eager_input_streaming",
    "input_examples",
    "defer_loading",
)
IGNORED_VALUES: dict[str, tuple[object, ...]] = {"allowed_callers": (["direct"],)}
"""Further fields, by the values that have no effect."""
WORDS: Words = ((".function", ""), (".parameters", ".input_schema"))
EAGER_BETA = "fine-grained-tool-streaming-2025-05-14"


@dataclass
class ToolReader:
    """Parses the tools of one request. `used`: its features. `on_invalid` gets the errors of names
    and schemas."""

    hosted: HostedTools
    used: Used[MessagesFeature]
    open_objects: bool = False
    on_invalid: OnInvalid = refuse
    eager: set[str] = field(default_factory=set)
    """Names of the tools whose input is streamed before it is complete."""

    def toolset(self, tools: Sequence[object]) -> Toolset:
        """Raise InvalidRequest, InvalidTools and UnsupportedParameter."""
        return read_toolset(
            [*self._entries(tools), *self.used.more()],
            self._parsed,
            hosted=self.hosted,
            on_invalid=self.on_invalid,
            optional=self.used.optional,
        )

    def define(self, definition: object, path: str) -> tuple[Tool, ...]:
        """Parse a definition in a message. It is empty if the tool is left out."""
        if self.hosted.leaves_out(definition, path):
            return ()
        return self._parsed([self._client_entry(definition, path)], self.on_invalid)

    def _entries(self, tools: Sequence[Any]) -> Iterator[Entry]:
        for at, entry in enumerate(tools):
            path = f"tools[{at}]"
            kind = entry.get("type") if isinstance(entry, dict) else None
            feature = None if kind in CLIENTS else self.used.of_type(kind)
            taken = None if feature is None else feature.take(Fields(entry, path))
            if taken is not None:
                yield from taken
            elif kind in CLIENTS or not self.hosted.leaves_out(entry, path):
                yield self._client_entry(entry, path)

    def _client_entry(self, entry: object, path: str) -> Entry:
        """Read a tool that the client runs."""
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        fields = Fields(entry, path)
        function = self._function(fields)
        eager = fields.flag("eager_input_streaming")
        if (
            EAGER_BETA in self.used.asked.client.headers.get("anthropic-beta", "")
            if eager is None
            else eager
        ):
            self.eager.add(function["name"])
        return function_entry(path, function, deferred=fields.flag(DEFERRED) is True)

    def _function(self, fields: Fields) -> dict[str, Any]:
        """The function in OpenAI's form, as templates show it."""
        entry, path = fields.values, fields.place
        if (other := other_form(entry, "the Messages API")) is not None:
            raise InvalidTools(f"{path!r} is no tool of the Messages API. {other}", param=path)
        kind = fields.text("type")
        feature = self.used.of_type(kind)
        known = None if feature is None or kind is None else feature.known(fields, kind)
        if kind is not None and kind != "custom" and known is None:
            raise _unknown_type(kind, fields.path("type"))
        ignored = [each for each, values in IGNORED_VALUES.items() if entry.get(each) in values]
        fields.check_known((*(known or FIELDS), *ignored))
        if feature is None or known is None:
            function = _own_function(fields)
        else:
            function = feature.function(fields)
        if entry.get("strict") is not None:
            function["strict"] = entry["strict"]
        return function

    def _parsed(self, entries: Sequence[Entry], on_invalid: OnInvalid) -> tuple[Tool, ...]:
        return parse_entries(entries, on_invalid, open_objects=self.open_objects, words=WORDS)


def _own_function(fields: Fields) -> dict[str, Any]:
    """The function of a tool that the client defines."""
    name = fields.text("name")
    if not name:
        raise InvalidTools(f"{fields.path('name')!r} is required.", param=fields.path("name"))
    schema = fields.values.get("input_schema")
    if not isinstance(schema, dict):
        where = fields.path("input_schema")
        problem = "is required" if schema is None else "must be an object"
        raise InvalidTools(
            f'{where!r} {problem}: a JSON Schema with the type "object".', param=where
        )
    function: dict[str, Any] = {"name": name}
    if (description := fields.text("description")) is not None:
        function["description"] = description
    function["parameters"] = schema
    return function


def _unknown_type(kind: str, path: str) -> UnsupportedParameter:
    return UnsupportedParameter(
        f"{path!r} is {kind!r}, which is not supported. Write the tool as "
        f"{WRITTEN['the Messages API']}.",
        param=path,
    )
