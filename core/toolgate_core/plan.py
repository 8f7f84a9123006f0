"""ChatRequest → EnforcementPlan: what the answer to this request is held to."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from . import grammar_key, wire
from .dialect import Dialect
from .errors import InvalidRequest, InvalidTools, UnknownTool, UnsupportedParameter
from .schema.additional_properties import opened

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""OpenAI allows [A-Za-z0-9_-]{1,64}; MCP servers also use dots and longer names. None of these
characters needs escaping in JSON, so a name stands in the envelope as it is."""

MAX_KEPT = 2_000
"""Tools whose canonical form is kept."""
MAX_KEPT_LENGTH = 16_000
"""Characters of a schema up to which it is."""

_NO_PROPERTIES: dict[str, Any] = {"type": "object", "properties": {}}
"""How a function without parameters is written where they are not left out: it is called with none
(docs/decisions/0005)."""


@dataclass(frozen=True)
class Tool:
    """A function tool. `parameters` is canonical; `definition` is what the template renders.
    `strict`: what no mask can hold is refused rather than checked."""

    name: str
    parameters: dict[str, Any]
    hash: str
    definition: dict[str, Any]
    strict: bool = False


@dataclass(frozen=True)
class NamedTool:
    """tool_choice = {"type": "function", "function": {"name": …}}: exactly one call of it."""

    name: str


@dataclass(frozen=True)
class AllowedTools:
    """tool_choice = {"type": "allowed_tools", …}: the model reads of all tools, and may call these
    (`auto`) or must (`required`)."""

    mode: Literal["auto", "required"]
    names: tuple[str, ...]


ToolChoice = Literal["none", "auto", "required"] | NamedTool | AllowedTools


@dataclass(frozen=True)
class ChatRequest:
    """A chat completion request, admitted: every field checked, defaults filled in."""

    request_id: str
    model: str
    messages: tuple[dict[str, Any], ...]
    images: bool = False
    """There are images in the messages."""
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    reasoning: wire.ReasoningMode = "default"
    template_kwargs: dict[str, Any] | None = None
    sampling: wire.Sampling = field(default_factory=wire.Sampling)
    reasoning_budget: int | None = None
    on_budget: wire.OnBudget = "cut"
    content_format: Tool | None = None
    """What the content is held to: a schema under no name (see `keys.CONTENT`)."""
    content_param: str = "response_format"
    """Where in the request's body that schema stands."""
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    """The stop string that ended a choice is part of its content."""
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    """Every chunk says how many tokens there have been."""
    include_reasoning: bool = True
    return_token_ids: bool = False
    return_prompt_text: bool = False
    tokens_as_ids: bool = False
    """Logprobs spell a token as `token_id:<id>`."""
    tokenizing: wire.Tokenizing = field(default_factory=wire.Tokenizing)
    answer_id: str | None = None
    """The id that the client gave; the engine's is `request_id`, which comes only once."""
    echo: str = ""
    """Text that the answer's content begins with: the message that it goes on with."""
    legacy_functions: bool = False
    """Asked for by `functions`: a call is answered as a `function_call`."""
    priority: int = 0
    cache_salt: str | None = None


@dataclass(frozen=True)
class EnforcementPlan:
    """Which calls may, must and can't come. `candidates` are the tools the masks know."""

    choice: Literal["none", "auto", "required"]
    candidates: tuple[Tool, ...]
    max_calls: int | None
    named: bool
    reasoning: wire.ReasoningMode
    reasoning_budget: int | None = None
    on_budget: wire.OnBudget = "cut"
    content: Tool | None = None
    """What the content is held to, as a tool without a name."""

    @property
    def grammars(self) -> tuple[Tool, ...]:
        """All whose grammars the answer needs."""
        return (*self.candidates, self.content) if self.content else self.candidates

    def wire(self, grammar_keys: dict[str, str]) -> wire.Enforcement:
        """The plan as it is sent. `grammar_keys` maps tool hashes to grammar keys."""
        candidates = tuple(
            wire.Candidate(name=tool.name, key=grammar_keys[tool.hash]) for tool in self.candidates
        )
        return wire.Enforcement(
            choice=self.choice,
            candidates=candidates,
            max_calls=self.max_calls,
            reasoning=self.reasoning,
            reasoning_budget=self.reasoning_budget,
            on_budget=self.on_budget,
            content=grammar_keys[self.content.hash] if self.content else None,
        )


def parse_tools(
    tools: Sequence[object], *, param: str = "tools", open_objects: bool = False
) -> tuple[Tool, ...]:
    """OpenAI's `tools`. `open_objects`: those that name their members may have others, unless they
    say otherwise. Raises InvalidTools naming the entry that is wrong."""
    parsed: list[Tool] = []
    seen: set[str] = set()
    for index, entry in enumerate(tools):
        tool = _parse_tool(entry, f"{param}[{index}]", open_objects)
        if tool.name in seen:
            raise InvalidTools(
                f"Two tools are named {tool.name!r}; names must be unique.",
                param=f"{param}[{index}].function.name",
            )
        seen.add(tool.name)
        parsed.append(tool)
    return tuple(parsed)


def make_plan(request: ChatRequest, dialect: Dialect) -> EnforcementPlan:
    """Raises UnknownTool, InvalidTools and UnsupportedParameter, naming the parameter."""
    if request.reasoning == "on" and dialect.reasoning_begin is None:
        raise UnsupportedParameter(
            f"The model {request.model!r} does not reason; leave reasoning_effort out.",
            param="reasoning_effort",
        )
    choice, candidates = _allowed(request)
    if choice == "required" and not request.tools:
        raise InvalidTools('tool_choice "required" needs at least one tool.', param="tools")
    if choice == "none" or not request.tools:
        choice, candidates = "none", ()
    elif not dialect.calls:
        raise UnsupportedParameter(
            f"The model {request.model!r} has no marks for tool calls that could be enforced; "
            "leave the tools out.",
            param="tools",
        )
    if request.content_format and not dialect.calls:
        raise UnsupportedParameter(
            f"The model {request.model!r} has no marks that an enforced format could rely on; "
            "leave response_format out.",
            param="response_format",
        )
    named = isinstance(request.tool_choice, NamedTool)
    single = named or not request.parallel_tool_calls
    return EnforcementPlan(
        choice=choice,
        candidates=candidates,
        max_calls=1 if single else None,
        named=named,
        reasoning=request.reasoning,
        reasoning_budget=request.reasoning_budget,
        on_budget=request.on_budget,
        # Under "required" the answer has no content that could have a form.
        content=request.content_format if choice != "required" else None,
    )


def _allowed(
    request: ChatRequest,
) -> tuple[Literal["none", "auto", "required"], tuple[Tool, ...]]:
    """How far calls may or must come, and of which tools. Raises UnknownTool."""
    choice = request.tool_choice
    if isinstance(choice, NamedTool):
        return "required", _named(request.tools, (choice.name,))
    if isinstance(choice, AllowedTools):
        return choice.mode, _named(request.tools, choice.names)
    return choice, request.tools


def _named(tools: tuple[Tool, ...], names: tuple[str, ...]) -> tuple[Tool, ...]:
    known = {tool.name: tool for tool in tools}
    for name in names:
        if name not in known:
            raise UnknownTool(
                f"tool_choice names {name!r}, which is not one of `tools`.", param="tool_choice"
            )
    return tuple(tool for tool in tools if tool.name in names)


def content_format(schema: object, *, param: str, open_objects: bool = False) -> Tool:
    """What the content is held to, from a JSON Schema. Raises InvalidRequest naming `param`."""
    try:
        canonical = grammar_key.canonical_schema(schema, param=param)
        canonical = opened(canonical) if open_objects else canonical
        return Tool(
            grammar_key.CONTENT,
            canonical,
            grammar_key.tool_hash(grammar_key.CONTENT, canonical),
            {},
        )
    except InvalidTools as error:
        raise InvalidRequest(error.message, param=param) from error


def text_format(kind: Literal["choice", "regex"], value: list[str] | str) -> Tool:
    """What the content is held to, where it is no JSON: one of these texts, or a pattern's."""
    form = {grammar_key.TEXT: {kind: value}}
    return Tool(grammar_key.CONTENT, form, grammar_key.tool_hash(grammar_key.CONTENT, form), {})


def _parse_tool(entry: object, param: str, open_objects: bool) -> Tool:
    if not isinstance(entry, dict) or entry.get("type") != "function":
        raise InvalidTools(f'{param} must have "type": "function".', param=param)
    function = entry.get("function")
    if not isinstance(function, dict):
        raise InvalidTools(f"{param}.function is missing.", param=f"{param}.function")
    name = function.get("name")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise InvalidTools(
            f"{param}.function.name must be 1 to 128 of the characters A-Z a-z 0-9 _ . -",
            param=f"{param}.function.name",
        )
    where = f"{param}.function.parameters"
    given = function.get("parameters")
    parameters, tool_hash = _canonical(name, given, where, open_objects)
    strict = function.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise InvalidTools(
            f"{param}.function.strict must be true or false.", param=f"{param}.function.strict"
        )
    return Tool(name, parameters, tool_hash, entry, strict is True)


def _canonical(
    name: str, parameters: object, param: str, open_objects: bool
) -> tuple[dict[str, Any], str]:
    """Canonical parameters and the tool's hash. The same tools come again and again, and making
    them canonical takes a hundred times what recognising them does."""
    try:
        text = json.dumps(parameters)
        if len(text) <= MAX_KEPT_LENGTH:
            return _kept(name, text, open_objects)
    except (InvalidRequest, RecursionError, ValueError):
        pass  # told once more below, with the parameter's name
    return _made(name, parameters, param, open_objects)


@lru_cache(maxsize=MAX_KEPT)
def _kept(name: str, text: str, open_objects: bool) -> tuple[dict[str, Any], str]:
    return _made(name, json.loads(text), "parameters", open_objects)


def _made(
    name: str, parameters: object, param: str, open_objects: bool
) -> tuple[dict[str, Any], str]:
    canonical = grammar_key.canonical_parameters(parameters, param=param)
    if open_objects:
        canonical = opened(canonical)
    elif canonical == _NO_PROPERTIES:
        canonical = dict(grammar_key.EMPTY_PARAMETERS)
    return canonical, grammar_key.tool_hash(name, canonical)
