"""`tools` of the Responses API: functions, custom tools, namespaces of both, those of features, and
hosted tools, which no model is offered. A response repeats them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from toolgate_core.errors import InvalidTools, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool

from ...request.chat_request import ToolChoice
from ...request_fields import DEFERRED, Fields
from ..reader import ApiReader
from ..shared.content_format import STRUCTURED_OUTPUTS
from ..shared.tools import (
    EchoedTool,
    OfferedTool,
    ReadTool,
    function_name,
    own_form,
    read_tool_choice,
)
from .feature import ResponsesFeature, check_entry, chosen_of, repeated_entry

FIELDS: dict[str, tuple[str, ...]] = {
    "function": ("type", "name", "description", "parameters", "strict"),
    "namespace": ("type", "name", "description", "tools"),
}
"""By type of tool: its fields."""
DEFAULT_NAMESPACE = "functions"
"""The namespace in which Codex puts tools without one."""


class ResponsesReader(ApiReader[ResponsesFeature]):
    API = "the Responses API"
    CLIENTS = ("function",)
    PREFIX = "resp_"
    CONSTRAINTS = ("tools", "text", STRUCTURED_OUTPUTS)
    WORDS = ((".function", ""), (".custom", ""), (".format.grammar", ".format"))
    _alone: frozenset[str | None] = frozenset()
    """Names of the deferred functions of the request without a namespace."""

    def define_all(self, tools: Sequence[object], path: str) -> tuple[Tool, ...]:
        """Parse the tools of an item. `path`: of the array."""
        return self.parsed(self.collected(tools, path)[0], self._reading.on_invalid)

    def prepared(self, entries: Sequence[OfferedTool]) -> Sequence[OfferedTool]:
        """Without a search, deferred tools are loaded at once."""
        self._alone = frozenset(
            entry.name
            for entry in entries
            if entry.deferred and not entry.namespace and entry.tool["type"] == "function"
        )
        if any(feature.finds_deferred for feature in self.features):
            return entries
        return [each._replace(deferred=False) if each.deferred else each for each in entries]

    def parsed(self, entries: Sequence[OfferedTool], on_invalid: OnInvalid) -> tuple[Tool, ...]:
        return super().parsed([*map(self._in_namespace, entries)], on_invalid)

    def choice(self, given: object) -> ToolChoice:
        """Read `tool_choice`. Raise InvalidRequest, UnknownTool and UnsupportedParameter."""
        return read_tool_choice(given, self._chosen)

    def _chosen(self, fields: Fields) -> str:
        """Return the name of a tool in `tool_choice`. Raise InvalidRequest and
        UnsupportedParameter."""
        kind = fields.text("type")
        feature = self.features.of_type(kind)
        if feature is not None and (name := feature.chosen(fields)) is not None:
            return name
        if kind not in self.CLIENTS:
            others = ", ".join(name for each in self.features.known for name in each.CHOICES)
            raise fields.refusal(
                "type",
                f"must be 'function', 'custom' or one of {others}, but is {kind!r}. Other tools "
                "cannot be called here.",
            )
        return function_name(fields.values) or fields.required_text("name", "the name of a tool")

    def _in_namespace(self, entry: OfferedTool) -> OfferedTool:
        """Return the entry with its namespace. The Agents SDK knows the calls of a deferred
        function without a namespace by a namespace that is its name."""
        is_alone = self._alone and not entry.namespace and entry.name in self._alone
        return entry._replace(namespace=entry.name or "") if is_alone else entry

    def own(self, entry: Any, path: str, namespace: str = "") -> ReadTool:
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        entry, is_nested = own_form(entry, self.API, path)
        kind, fields = entry.get("type"), Fields(entry, path)
        if kind == "namespace" and not namespace:
            return self._namespace(fields)
        if is_nested:
            inner = client_tool(Fields(entry, f"{path}.function"), FIELDS["function"], namespace)
            entries = [each._replace(path=path, words=()) for each in inner.entries]
            return inner._replace(entries=entries)
        if kind in self.CLIENTS:
            return client_tool(fields, FIELDS[kind], namespace)
        feature = self.features.of_type(kind)
        taken = None if feature is None else feature.own(fields, namespace)
        if taken is None:
            raise unknown_type(kind, path)
        return taken

    def _namespace(self, fields: Fields) -> ReadTool:
        check_entry(fields, FIELDS["namespace"])
        name, description = fields.text("name"), fields.text("description")
        if description:
            self.features.input.history.note("left_out", fields.path("description"))
        if not name:
            raise fields.refusal("name", "must be a non-empty string.", InvalidTools)
        inner = fields.items("tools")
        if not inner:
            problem = "must be a non-empty array of functions and custom tools."
            raise fields.refusal("tools", problem, InvalidTools)
        entries, shown = self.collected(inner, fields.path("tools"), name)
        # OpenAI's model of a response requires the description.
        body = {"type": "namespace", "name": name, "description": description or ""}
        return ReadTool(entries, EchoedTool(body, inner=shown))


def client_tool(entry: Fields, known: Sequence[str], namespace: str) -> ReadTool:
    """Return a tool that the client runs. `known`: its fields. `namespace`: "" without one. Raise
    InvalidRequest and UnsupportedParameter."""
    check_entry(entry, known)
    entry.text("description")
    kind = entry.values["type"]
    # In the order of the request, as templates show it.
    kept = {
        name: value
        for name, value in entry.values.items()
        if name in known and name != "type" and value is not None
    }
    if namespace and isinstance(kept.get("name"), str):
        kept["name"] = full_name(namespace, kept["name"])
    deferred = entry.flag(DEFERRED) is True
    own = "" if namespace == DEFAULT_NAMESPACE else namespace
    shown = EchoedTool(repeated_entry(entry.values, known), str(kept.get("name")))
    return ReadTool([OfferedTool(entry.place, {"type": kind, kind: kept}, deferred, own)], shown)


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
    """Return the name of a tool of a namespace that the model sees."""
    return name if namespace == DEFAULT_NAMESPACE else f"{namespace}.{name}"


def offered(shown: Iterable[EchoedTool], names: Container[str]) -> list[dict[str, Any]]:
    """Return the tools of a response, without invalid ones that the model is not offered. Deferred
    ones stay: a search can find them."""
    return chosen_of(
        shown, lambda tool: DEFERRED in tool.body or tool.name is None or tool.name in names
    )
