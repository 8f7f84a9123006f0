"""`tools` of the Responses API: functions, custom tools, namespaces of both, those of features, and
hosted tools, which no model is offered. A response repeats them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, Words, refuse
from toolgate_core.toolset import Toolset

from ...features.feature import Used
from ...request_fields import Fields
from ..shared.tools import (
    DEFERRED,
    Entry,
    HostedTools,
    other_form,
    parse_entries,
    read_toolset,
)
from .feature import ResponsesFeature, Shown, check_entry, chosen_of, repeated_entry

CLIENTS = ("function", "custom")
"""Types of tools that clients define."""
FIELDS: dict[str, tuple[str, ...]] = {
    "function": ("type", "name", "description", "parameters", "strict"),
    "custom": ("type", "name", "description", "format"),
    "namespace": ("type", "name", "description", "tools"),
}
"""By type of tool: its fields."""
DEFAULT_NAMESPACE = "functions"
"""The namespace in which Codex puts tools without one."""
WORDS: Words = ((".function", ""), (".custom", ""), (".format.grammar", ".format"))


@dataclass
class ToolReader:
    """Parses the tools of one request. `used`: its features. `on_invalid` gets the errors of names
    and schemas."""

    hosted: HostedTools
    used: Used[ResponsesFeature]
    open_objects: bool = False
    on_invalid: OnInvalid = refuse
    shown: tuple[Shown, ...] = ()
    """The tools of the request as the response repeats them."""
    _alone: frozenset[str | None] = frozenset()
    """Names of the deferred functions of the request without a namespace."""

    def toolset(self, tools: Sequence[object]) -> Toolset:
        """Raise InvalidRequest, InvalidTools and UnsupportedParameter, which name the entry."""
        entries: list[Entry] = []
        shown = [self._read(entry, f"tools[{at}]", entries) for at, entry in enumerate(tools)]
        self.shown = tuple(tool for tool in shown if tool is not None)
        self._alone = frozenset(
            entry.name
            for entry in entries
            if entry.deferred and not entry.namespace and entry.tool["type"] == "function"
        )
        if not any(feature.finds_deferred for feature in self.used):
            entries = [each._replace(deferred=False) if each.deferred else each for each in entries]
        return read_toolset(
            entries,
            self._parsed,
            hosted=self.hosted,
            on_invalid=self.on_invalid,
            optional=self.used.optional,
        )

    def define(self, tools: Sequence[object], path: str) -> tuple[Tool, ...]:
        """Parse the tools of an item. `path`: of the array."""
        entries: list[Entry] = []
        for at, entry in enumerate(tools):
            self._read(entry, f"{path}[{at}]", entries)
        return self._parsed(entries, self.on_invalid)

    def _read(
        self, entry: object, path: str, entries: list[Entry], namespace: str = ""
    ) -> Shown | None:
        """The tool as the response repeats it; None if it is left out. Its functions and custom
        tools are added to `entries`."""
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        kind = entry.get("type")
        if (other := other_form(entry, "the Responses API")) is not None:
            raise InvalidTools(f"{path!r} is no tool of the Responses API. {other}", param=path)
        if kind in CLIENTS:
            entries.append(client_entry(kind, entry, path, namespace))
            name = entry.get("name")
            name = full_name(namespace, name) if namespace and isinstance(name, str) else name
            repeated = repeated_entry(entry, FIELDS[kind])
            if kind == "custom" and repeated["format"] is None:
                repeated["format"] = {"type": "text"}
            return Shown(repeated, str(name))
        if kind == "namespace" and not namespace:
            return self._read_namespace(entry, path, entries)
        feature = None if namespace else self.used.of_type(kind)
        taken = None if feature is None else feature.take(Fields(entry, path))
        if taken is not None:
            entries += taken.entries
            return taken.shown
        if self.hosted.leaves_out(entry, path):
            return None
        raise unknown_type(kind, path)

    def _read_namespace(self, entry: dict[str, Any], path: str, entries: list[Entry]) -> Shown:
        fields = Fields(entry, path)
        check_entry(fields, FIELDS["namespace"])
        name, description = fields.text("name"), fields.text("description")
        if not name:
            raise InvalidTools(f"{path}.name must be a non-empty string.", param=f"{path}.name")
        inner = fields.items("tools")
        if not inner:
            raise InvalidTools(
                f"{path}.tools must be a non-empty array of functions and custom tools.",
                param=f"{path}.tools",
            )
        tools = [
            self._read(each, f"{path}.tools[{at}]", entries, name) for at, each in enumerate(inner)
        ]
        # OpenAI's model of a response requires the description.
        body = {"type": "namespace", "name": name, "description": description or ""}
        return Shown(body, inner=tuple(tool for tool in tools if tool is not None))

    def _parsed(self, entries: Sequence[Entry], on_invalid: OnInvalid) -> tuple[Tool, ...]:
        return parse_entries(
            [self._in_namespace(entry) for entry in entries],
            on_invalid,
            open_objects=self.open_objects,
            words=WORDS,
        )

    def _in_namespace(self, entry: Entry) -> Entry:
        """The Agents SDK knows the calls of a deferred function without a namespace by a namespace
        that is its name."""
        is_alone = self._alone and not entry.namespace and entry.name in self._alone
        return entry._replace(namespace=entry.name or "") if is_alone else entry


def client_entry(kind: str, entry: dict[str, Any], path: str, namespace: str) -> Entry:
    fields = Fields(entry, path)
    check_entry(fields, FIELDS[kind])
    fields.text("description")
    # In the order of the request, as templates show it.
    kept = {
        name: value
        for name, value in entry.items()
        if name in FIELDS[kind] and name != "type" and value is not None
    }
    if namespace and isinstance(kept.get("name"), str):
        kept["name"] = full_name(namespace, kept["name"])
    if isinstance(form := kept.get("format"), dict) and form.get("type") == "grammar":
        inner = {key: value for key, value in form.items() if key != "type"}
        kept["format"] = {"type": "grammar", "grammar": inner}
    deferred = fields.flag(DEFERRED) is True
    own = "" if namespace == DEFAULT_NAMESPACE else namespace
    return Entry(path, {"type": kind, kind: kept}, deferred, own)


def unknown_type(kind: object, path: str) -> InvalidTools | UnsupportedParameter:
    path = f"{path}.type"
    if not isinstance(kind, str):
        return InvalidTools(f'{path!r} must be a string, for example "function".', param=path)
    return UnsupportedParameter(
        f'{path!r} is {kind!r}, which is not supported. Use the type "function", "custom" or '
        '"namespace".',
        param=path,
    )


def full_name(namespace: str, name: str) -> str:
    """The name of a tool of a namespace that the model sees."""
    return name if namespace == DEFAULT_NAMESPACE else f"{namespace}.{name}"


def offered(shown: Iterable[Shown], names: Container[str]) -> list[dict[str, Any]]:
    """The tools of a response, without invalid ones that the model is not offered. Deferred ones
    stay: a search can find them."""
    return chosen_of(
        shown, lambda tool: DEFERRED in tool.body or tool.name is None or tool.name in names
    )
