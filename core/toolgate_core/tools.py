"""Tools of a request: parsed, validated, with canonical schema and hash."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from . import grammar_key
from .custom_tools import custom_parameters, function_definition, read_grammar
from .errors import InvalidRequest, InvalidTools
from .schema.additional_properties import with_open_objects
from .schema.canonical import (
    EMPTY_PARAMETERS,
    NARROW,
    TEXT,
    canonical_parameters,
    canonical_schema,
)

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""OpenAI allows [A-Za-z0-9_-]{1,64}. MCP servers also use dots and longer names. None of these
characters is escaped in JSON, so the envelope of a call contains the name unchanged."""

MAX_CACHED = 2_000
"""Maximum number of cached canonical schemas."""
MAX_CACHED_LENGTH = 16_000
"""Maximum length of a schema that is cached, in characters."""

_NO_PROPERTIES: dict[str, Any] = {"type": "object", "properties": {}}
"""The usual way to write the schema of a function without arguments. It is read as
`EMPTY_PARAMETERS` (docs/decisions/0005)."""


@dataclass(frozen=True)
class Tool:
    """A function, a custom tool, or the schema of the content as a tool without a name."""

    name: str
    parameters: dict[str, Any]
    """The canonical schema."""
    hash: str
    definition: dict[str, Any]
    """The client's definition, for the chat template."""
    strict: bool = False
    """Whether residual keywords are refused instead of validated."""
    custom: bool = False
    """Whether it is a custom tool, whose only argument is text."""
    namespace: str = ""
    """The namespace of the Responses API with which the name begins."""


def parse_tools(
    tools: Sequence[object], *, param: str = "tools", open_objects: bool = False
) -> tuple[Tool, ...]:
    """Parse OpenAI's `tools`. With `open_objects`, objects that declare properties may have further
    ones unless the schema forbids them. Raises InvalidTools, which names the invalid entry."""
    parsed: list[Tool] = []
    seen: set[str] = set()
    for index, entry in enumerate(tools):
        tool = _parse_tool(entry, f"{param}[{index}]", open_objects)
        if tool.name in seen:
            raise InvalidTools(
                f"Two tools have the name {tool.name!r}. Give each tool a unique name.",
                param=f"{param}[{index}].{'custom' if tool.custom else 'function'}.name",
            )
        seen.add(tool.name)
        parsed.append(tool)
    return tuple(parsed)


def narrowed_tool(tool: Tool) -> Tool:
    """The same function with a narrower grammar: masks enforce all keywords, where some of the
    valid arguments can be stated without the residual ones. Not for the chat template."""
    parameters = tool.parameters | {NARROW: True}
    tool_hash = grammar_key.tool_hash(tool.name, parameters)
    return replace(tool, parameters=parameters, hash=tool_hash, strict=False)


def parameters_path(tool: Tool) -> str:
    """The path of the schema or the grammar in an entry of `tools` of chat completions."""
    return "custom.format.grammar.definition" if tool.custom else "function.parameters"


def content_format(schema: object, *, param: str, open_objects: bool = False) -> Tool:
    """The format of JSON content, from its schema. Raises InvalidRequest, which names `param`."""
    try:
        canonical = canonical_schema(schema, param=param)
        canonical = with_open_objects(canonical) if open_objects else canonical
        tool_hash = grammar_key.tool_hash(grammar_key.CONTENT, canonical)
    except InvalidTools as error:
        raise InvalidRequest(error.message, param=param) from error
    return Tool(grammar_key.CONTENT, canonical, tool_hash, {})


def text_format(kind: Literal["choice", "regex"], value: list[str] | str) -> Tool:
    """The format of content that is not JSON: one of some texts, or a match of a pattern."""
    schema = {TEXT: {kind: value}}
    tool_hash = grammar_key.tool_hash(grammar_key.CONTENT, schema)
    return Tool(grammar_key.CONTENT, schema, tool_hash, {})


def _parse_tool(entry: object, param: str, open_objects: bool) -> Tool:
    kind = entry.get("type") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or kind not in ("function", "custom"):
        raise InvalidTools(
            f'{param} must be an object with "type": "function" or "custom".', param=param
        )
    function = entry.get(kind)
    if not isinstance(function, dict):
        raise InvalidTools(f"{param}.{kind} is missing or not an object.", param=f"{param}.{kind}")
    name = function.get("name")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise InvalidTools(
            f"{param}.{kind}.name must have 1 to 128 characters, each one of A-Z a-z 0-9 _ . -",
            param=f"{param}.{kind}.name",
        )
    if kind == "custom":
        return _custom_tool(name, function, f"{param}.custom")
    where = f"{param}.function.parameters"
    parameters, tool_hash = _canonical(name, function.get("parameters"), where, open_objects)
    strict = function.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise InvalidTools(
            f"{param}.function.strict must be true or false.", param=f"{param}.function.strict"
        )
    return Tool(name, parameters, tool_hash, entry, strict is True)


def _custom_tool(name: str, custom: dict[str, Any], param: str) -> Tool:
    description = custom.get("description")
    if description is not None and not isinstance(description, str):
        raise InvalidTools(f"{param}.description must be a string.", param=f"{param}.description")
    grammar = read_grammar(custom.get("format"), f"{param}.format")
    parameters = custom_parameters(grammar)
    definition = function_definition(name, description, grammar)
    tool_hash = grammar_key.tool_hash(name, parameters)
    # There is no other text that the model could be asked for, so nothing is left to validation.
    return Tool(name, parameters, tool_hash, definition, strict=True, custom=True)


def _canonical(
    name: str, parameters: object, param: str, open_objects: bool
) -> tuple[dict[str, Any], str]:
    """The canonical parameters and the tool's hash.

    They are cached, because clients send the same tools with every request: a cache hit takes a
    hundredth of the time.
    """
    try:
        text = json.dumps(parameters)
        if len(text) <= MAX_CACHED_LENGTH:
            return _cached(name, text, open_objects)
    except (InvalidRequest, RecursionError, ValueError):
        pass  # raised again below, with the parameter's name
    return _make_canonical(name, parameters, param, open_objects)


@lru_cache(maxsize=MAX_CACHED)
def _cached(name: str, text: str, open_objects: bool) -> tuple[dict[str, Any], str]:
    return _make_canonical(name, json.loads(text), "parameters", open_objects)


def _make_canonical(
    name: str, parameters: object, param: str, open_objects: bool
) -> tuple[dict[str, Any], str]:
    canonical = canonical_parameters(parameters, param=param)
    if open_objects:
        canonical = with_open_objects(canonical)
    elif canonical == _NO_PROPERTIES:
        canonical = dict(EMPTY_PARAMETERS)
    return canonical, grammar_key.tool_hash(name, canonical)
