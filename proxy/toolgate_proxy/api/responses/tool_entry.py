"""Single entries of `tools`: functions, custom tools, and searches of the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core.errors import InvalidTools, UnsupportedParameter

from ...request_fields import Fields, unknown_value
from ...shared_tools import DEFERRED
from ..shared.tool_entries import Entry
from .shown_tools import DEFAULT_NAMESPACE, FIELDS, SEARCH, full_name

EXECUTIONS = ("client", "server")
SEARCH_FIELDS = ("type", "execution", "description", "parameters")
IGNORED_FIELDS = (DEFERRED, "output_schema", "allowed_callers")
"""Fields without effect. Without a search of the client, deferred tools are loaded at once."""


def search_tool(fields: Fields) -> dict[str, Any]:
    """Return a search of the client as a function. Raise InvalidRequest and
    UnsupportedParameter."""
    execution = fields.text("execution")
    if execution not in (None, *EXECUTIONS):
        raise unknown_value(fields.path("execution"), "client or server", execution, EXECUTIONS)
    fields.check_known(SEARCH_FIELDS)
    function: dict[str, Any] = {"name": SEARCH}
    if (description := fields.text("description")) is not None:
        function["description"] = description
    if (parameters := fields.mapping("parameters")) is not None:
        function["parameters"] = parameters
    return function


def client_entry(kind: str, entry: dict[str, Any], path: str, namespace: str) -> Entry:
    check_fields(kind, entry, path)
    fields = Fields(entry, path)
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


def in_own_words(text: str) -> str:
    for nested, own in (("].function", "]"), ("].custom", "]"), ("].format.grammar", "].format")):
        text = text.replace(nested, own)
    return text


def unknown_type(kind: object, path: str) -> InvalidTools | UnsupportedParameter:
    path = f"{path}.type"
    if not isinstance(kind, str):
        return InvalidTools(f'{path!r} must be a string, for example "function".', param=path)
    return UnsupportedParameter(
        f'{path!r} is {kind!r}, which is not supported. Use the type "function", "custom" or '
        '"namespace".',
        param=path,
    )


def check_fields(kind: str, entry: Mapping[str, Any], path: str) -> None:
    Fields(entry, path).check_known((*FIELDS[kind], *IGNORED_FIELDS))
    callers = entry.get("allowed_callers")
    if callers is not None and (not isinstance(callers, list) or "direct" not in callers):
        raise UnsupportedParameter(
            f"{f'{path}.allowed_callers'!r} must contain 'direct'. Programs of the model can't "
            "call tools here.",
            param=f"{path}.allowed_callers",
        )
