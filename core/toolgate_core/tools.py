"""Tools of a request: parsed, validated, with canonical schema and hash."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import Any, Literal, NamedTuple

from . import grammar_key
from .custom_tools import FIELDS, custom_parameters, function_definition, read_grammar
from .errors import InvalidRequest, InvalidTools, UnsupportedParameter
from .pointer import member_path
from .schema.canonical import EMPTY_PARAMETERS, TEXT, canonical_parameters, canonical_schema
from .schema.closed_objects import with_open_objects
from .schema.corrections import Correction, corrected, corrections
from .schema.keywords import ASSERTIONS, DEFINITIONS
from .schema.limits import check_limits
from .text_size import half_pair_in

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""OpenAI allows [A-Za-z0-9_-]{1,64}. MCP servers also use dots and longer names. None of these
characters is escaped in JSON, so the envelope of a call contains the name unchanged."""

MEMBERS = {"function": ("name", "description", "parameters", "strict"), "custom": FIELDS}
"""By type of a tool: its members."""
MAX_MEMBERS = 20
"""Number of members of a tool that are compared with the known ones."""
_CONSTRAINTS = {"parameters", "input_schema", "format"}
"""Members that constrain the calls."""
_HARMLESS = {"annotations", "cache_control", "metadata", "response", "return", "returns"}
"""Objects that clients send with functions, and that have no effect."""
_KEYWORDS = (ASSERTIONS | {*DEFINITIONS}) - {"format", "type"}

_NO_PROPERTIES: dict[str, Any] = {"type": "object", "properties": {}}
"""The usual way to write the schema of a function without arguments. It is read as
`EMPTY_PARAMETERS` (decision 5)."""


Words = Sequence[tuple[str, str]]
"""Parts of paths in chat completions, and what an API has instead of them."""


class Place(NamedTuple):
    """Where a request has a tool."""

    path: str
    namespace: str = ""
    """The namespace of the Responses API, if it has one."""
    words: Words = ()

    def own(self, text: str) -> str:
        """Return a path below that of the tool, or a text with some, as the API has them."""
        for nested, own in self.words:
            text = text.replace(f"{self.path}{nested}", f"{self.path}{own}")
        return text

    def named_by(self, error: InvalidRequest) -> InvalidRequest:
        return error.reworded(self.own(error.message), self.own(error.param or self.path))


@dataclass(frozen=True)
class Tool:
    """A function, a custom tool, or the schema of the content as a tool without a name."""

    name: str
    parameters: dict[str, Any]
    """The canonical schema."""
    hash: str
    definition: dict[str, Any]
    """The client's definition, with its schema as it was meant, for the chat template."""
    strict: bool = False
    """Whether residual keywords are refused instead of validated."""
    custom: bool = False
    """Whether it is a custom tool, whose only argument is text."""
    place: Place = field(default=Place(""), compare=False)
    """Of the tool, or of the content's schema."""
    corrections: tuple[Correction, ...] = ()
    """The slips in the given schema that are read as they were meant."""
    json: bytes | None = field(default=None, compare=False)
    """The definition as JSON, if it is known."""

    @property
    def namespace(self) -> str:
        """The namespace of the Responses API with which the name begins."""
        return self.place.namespace

    @property
    def param(self) -> str:
        """The path of its schema or grammar in the request's body."""
        inner = "custom.format.grammar.definition" if self.custom else "function.parameters"
        return self.place.own(f"{self.place.path}.{inner}") if self.name else self.place.path

    @property
    def subject(self) -> str:
        """What errors about its schema or grammar begin with."""
        if self.custom:
            return f"The grammar of {self.name!r}"
        return (
            f"The parameters of {self.name!r}" if self.name else "The keywords of response_format"
        )

    @property
    def follows_from_definition(self) -> bool:
        """Whether `parse_tools` makes the same tool of its definition."""
        return bool(self.name and self.definition) and not self.custom and not self.corrections

    def is_same(self, other: Tool) -> bool:
        """Whether the prompt and the masks are the same for both."""
        return (self.definition, self.hash) == (other.definition, other.hash)

    def at(self, place: Place) -> Tool:
        """Return the tool at another place."""
        placed = object.__new__(Tool)
        vars(placed).update(vars(self), place=place)  # in a tenth of the time of `replace`
        return placed


OnInvalid = Callable[[str, InvalidRequest], None]
"""Called with the name of a tool that is invalid, or its place, and the error. The tool is left out
if it returns."""


def refuse(_name: str, error: InvalidRequest) -> None:
    raise error


def parse_tools(
    tools: Sequence[Any],
    *,
    places: Sequence[Place] = (),
    open_objects: bool = False,
    on_invalid: OnInvalid = refuse,
) -> tuple[Tool, ...]:
    """Parse tools in the form of chat completions; some may be parsed already. With `open_objects`,
    objects that declare properties may have further ones unless the schema forbids them. A tool
    with the same definition as an earlier one is left out. `places`: of the tools, if they are not
    those of `tools`. `on_invalid` gets InvalidTools, SchemaNotEnforceable and UnsupportedParameter,
    which name the invalid entry."""
    parsed: dict[str, Tool] = {}
    for index, entry in enumerate(tools):
        place = places[index] if places else Place(f"tools[{index}]")
        try:
            is_parsed = isinstance(entry, Tool)
            tool = entry.at(place) if is_parsed else parse_tool(entry, place, open_objects)
        except InvalidRequest as error:
            on_invalid(_name_of(entry) or place.path, place.named_by(error))
            continue
        known = parsed.setdefault(tool.name, tool)
        if known is not tool and not known.is_same(tool):
            repeated = InvalidTools(
                f"Two tools have the name {tool.name!r}, with different definitions. Give each "
                "tool a unique name.",
                param=f"{place.path}.{'custom' if tool.custom else 'function'}.name",
            )
            on_invalid(place.path, place.named_by(repeated))
    return tuple(parsed.values())


def content_format(schema: object, *, param: str, open_objects: bool = False) -> Tool:
    """Return the format of JSON content, from its schema. Raise InvalidRequest, which names
    `param`."""
    try:
        canonical = canonical_schema(schema, param=param)
        canonical = with_open_objects(canonical) if open_objects else canonical
        tool_hash = grammar_key.tool_hash(grammar_key.CONTENT, canonical)
    except InvalidTools as error:
        raise InvalidRequest(error.message, param=param) from error
    place, slips = Place(param), corrections(schema)
    return Tool(grammar_key.CONTENT, canonical, tool_hash, {}, place=place, corrections=slips)


def text_format(kind: Literal["choice", "regex"], value: list[str] | str, *, param: str) -> Tool:
    """Return the format of content that is not JSON: one of some texts, or a match of a pattern.
    `param`: its path in the request's body."""
    schema = {TEXT: {kind: value}}
    tool_hash = grammar_key.tool_hash(grammar_key.CONTENT, schema)
    return Tool(grammar_key.CONTENT, schema, tool_hash, {}, place=Place(param))


def parse_tool(entry: object, place: Place, open_objects: bool) -> Tool:
    """Parse a tool in the form of chat completions. Raise InvalidTools, SchemaNotEnforceable and
    UnsupportedParameter."""
    param = place.path
    kind = entry.get("type") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or kind not in ("function", "custom"):
        raise InvalidTools(
            f'{param} must be an object with "type": "function" or "custom".', param=param
        )
    function = entry.get(kind)
    if not isinstance(function, dict):
        raise InvalidTools(f"{param}.{kind} is missing or not an object.", param=f"{param}.{kind}")
    _check_members(entry, kind, param)
    name = function.get("name")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise InvalidTools(
            f"{param}.{kind}.name must have 1 to 128 characters, each one of A-Z a-z 0-9 _ . -",
            param=f"{param}.{kind}.name",
        )
    if kind == "custom":
        return _custom_tool(name, function, place)
    schema = function.get("parameters")
    parameters = canonical_parameters(schema, param=f"{param}.function.parameters")
    if open_objects:
        parameters = with_open_objects(parameters)
    elif parameters == _NO_PROPERTIES:
        parameters = dict(EMPTY_PARAMETERS)
    tool_hash, fixes = grammar_key.tool_hash(name, parameters), corrections(schema)
    if fixes:
        entry = {**entry, "function": {**function, "parameters": corrected(schema)}}
    strict = function.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise InvalidTools(
            f"{param}.function.strict must be true or false.", param=f"{param}.function.strict"
        )
    return Tool(name, parameters, tool_hash, entry, strict is True, place=place, corrections=fixes)


def unknown_member(
    name: str, value: object, known: Sequence[str], container: Mapping[str, Any], place: str
) -> UnsupportedParameter:
    """Return the error for a member that an object, mostly a tool, does not have. `known`: the
    members of its type. `container`: those that it has. `place`: the path of the member."""
    meant = _meant(name, value, known, container)
    hint = f"Did you mean {meant!r}?" if meant else "Remove it."
    return UnsupportedParameter(
        f"{place!r} is not supported. {hint} The known members are {', '.join(known)}.", param=place
    )


def _meant(name: str, value: object, known: Sequence[str], container: Mapping[str, Any]) -> str:
    """What an unknown member is meant to be, "" if nothing is similar."""
    if name in _HARMLESS or name.startswith(("_", "output", "x-")):
        return ""
    if near := get_close_matches(name[:64].lower(), known, n=1, cutoff=0.75):
        return near[0]
    schema = next((each for each in known if each in _CONSTRAINTS), "")
    if schema and name in _KEYWORDS:
        return f"{schema}.{name}"
    return schema if isinstance(value, dict) and container.get(schema) is None else ""


def _check_members(entry: dict[str, Any], kind: str, param: str) -> None:
    """Refuse members that are meant to constrain the calls, and would have no effect."""
    function, known, place = entry[kind], MEMBERS[kind], f"{param}.{kind}"
    for name, value in islice(function.items(), MAX_MEMBERS):
        is_known = value is None or name in known or name == "type"
        if not is_known and _meant(name, value, known, function):
            raise unknown_member(name, value, known, function, member_path(place, name))
    for name in entry:
        if name in _CONSTRAINTS and name in known and name not in function:
            message = f"'{param}.{name}' has no effect. Move it into '{place}'."
            raise InvalidTools(message, param=f"{param}.{name}")


def _custom_tool(name: str, custom: dict[str, Any], place: Place) -> Tool:
    param = f"{place.path}.custom"
    description = custom.get("description")
    if description is not None and not isinstance(description, str):
        raise InvalidTools(f"{param}.description must be a string.", param=f"{param}.description")
    grammar = read_grammar(custom.get("format"), f"{param}.format")
    parameters = custom_parameters(grammar)
    definition = function_definition(name, description, grammar)
    tool_hash = grammar_key.tool_hash(name, parameters)
    # There is no other text that the model could be asked for, so nothing is left to validation.
    return Tool(name, parameters, tool_hash, definition, strict=True, custom=True, place=place)


def _name_of(entry: object) -> str | None:
    """Return the name of an invalid tool, if that is valid."""
    fields = entry if isinstance(entry, dict) else {}
    function = fields.get("function", fields.get("custom"))
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) and TOOL_NAME.fullmatch(name) else None


def check_tool(tool: Tool) -> None:
    """Check a new tool before a backend sees its schema. Raise SchemaTooComplex, and InvalidTools
    for text that is not Unicode (a lone surrogate), which cannot be sent to a backend."""
    check_limits(tool.parameters, param=tool.param)
    try:
        json.dumps(tool.parameters, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidTools(
            f"{tool.subject} contain {half_pair_in(tool.parameters)}. Remove or replace it.",
            param=tool.param,
        ) from error
