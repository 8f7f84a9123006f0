"""`tools` of the Messages API: they have a schema of the client, or are those of a feature."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolgate_core.errors import InvalidTools

from ...request.chat_request import NamedTool, ToolChoice
from ...request_fields import DEFERRED, Fields, unknown_value
from ..reader import ApiReader
from ..shared.content_format import STRUCTURED_OUTPUTS
from ..shared.tools import WRITTEN, Mode, ReadTool, check_form, function_entry
from ..surface import Client
from .content import check_fields
from .feature import MessagesFeature, check_entry

EAGER, EAGER_BETA = "eager_input_streaming", "fine-grained-tool-streaming-2025-05-14"
FIELDS = (
    "type",
    "name",
    "description",
    "input_schema",
    "strict",
    "cache_control",
    EAGER,
    "input_examples",
    "defer_loading",
)
FORMAT = "output_config.format"
OLD_FORMAT = "output_format"
MODES: dict[str, Mode] = {"auto": "auto", "any": "required", "none": "none"}
"""By the type of a choice that names no tool."""
CHOICE_TYPES = (*MODES, "tool")
CHOICE_KINDS = '"auto", "any" (a call is required), "tool" or "none"'
CHOICE = f"an object with the type {CHOICE_KINDS}"


class MessagesReader(ApiReader[MessagesFeature]):
    API = "the Messages API"
    CLIENTS = (None, "custom")
    PREFIX = "msg_"
    CONSTRAINTS = ("tools", FORMAT, OLD_FORMAT, STRUCTURED_OUTPUTS)
    WORDS = ((".function", ""), (".parameters", ".input_schema"))

    def own(self, entry: Any, path: str, namespace: str = "") -> ReadTool:
        """Read a tool as a function in OpenAI's form, as templates show it."""
        if not isinstance(entry, dict):
            raise InvalidTools(f"{path!r} must be an object.", param=path)
        check_form(entry, self.API, path)
        fields = Fields(entry, path)
        kind = fields.text("type")
        feature = self.features.of_type(kind)
        function = None if feature is None or kind is None else feature.function(fields, kind)
        if function is None:
            if kind not in self.CLIENTS:
                written = WRITTEN["the Messages API"]
                problem = f"is {kind!r}, which is not supported. Write the tool as {written}."
                raise fields.refusal("type", problem)
            check_entry(fields, FIELDS)
            function = _own_function(fields)
        if entry.get("strict") is not None:
            function["strict"] = entry["strict"]
        fields.flag(EAGER)
        return ReadTool([function_entry(path, function, deferred=fields.flag(DEFERRED) is True)])


def eager_tools(tools: Iterable[Any], client: Client) -> frozenset[str]:
    """Return the names of the tools whose input is streamed before it is complete."""
    default = EAGER_BETA in client.headers.get("anthropic-beta", "")
    flags = ((each.get("name"), each.get(EAGER)) for each in tools if isinstance(each, dict))
    return frozenset(str(name) for name, flag in flags if (default if flag is None else flag))


def _own_function(fields: Fields) -> dict[str, Any]:
    """Return the function of a tool that the client defines."""
    name = fields.text("name")
    if not name:
        raise fields.refusal("name", "is required.", InvalidTools)
    schema = fields.values.get("input_schema")
    if not isinstance(schema, dict):
        problem = "is required" if schema is None else "must be an object"
        problem = f'{problem}: a JSON Schema with the type "object".'
        raise fields.refusal("input_schema", problem, InvalidTools)
    function: dict[str, Any] = {"name": name}
    if (description := fields.text("description")) is not None:
        function["description"] = description
    function["parameters"] = schema
    return function


def read_tool_choice(choice: object) -> tuple[ToolChoice, bool]:
    """Return the choice, and whether the response may have several calls. Raise InvalidRequest and
    UnsupportedParameter."""
    if choice is None:
        return "auto", True
    if not isinstance(choice, dict):
        written = '{"type": "{}"}'
        raise unknown_value("tool_choice", CHOICE, choice, CHOICE_TYPES, suggestion=written)
    fields = Fields(choice, "tool_choice")
    kind = fields.text("type")
    if kind is None or kind not in CHOICE_TYPES:
        raise unknown_value(fields.path("type"), CHOICE_KINDS, kind, CHOICE_TYPES)
    check_fields(fields, ("type", "name", "disable_parallel_tool_use"))
    parallel = not fields.flag("disable_parallel_tool_use")
    if kind == "tool":
        name = fields.required_text("name", "the name of a tool")
        return NamedTool(name), parallel
    if choice.get("name") is not None:
        raise fields.wrong("name", 'left out, except with the type "tool"')
    return MODES[kind], parallel
