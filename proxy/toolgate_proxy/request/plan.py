"""The enforcement plan of a request: allowed and required calls, and the format of the content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter

from toolgate_core import wire
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.errors import InvalidTools, UnknownTool, UnsupportedParameter
from toolgate_core.tools import Tool

from .chat_request import AllowedTools, ChatRequest, NamedTool

CANDIDATES: TypeAdapter[tuple[wire.Candidate, ...]] = TypeAdapter(tuple[wire.Candidate, ...])
"""pydantic makes many models in half the time that it takes for each."""


@dataclass(frozen=True)
class EnforcementPlan:
    choice: Literal["none", "auto", "required"]
    candidates: tuple[Tool, ...]
    """The tools that may be called."""
    max_calls: int | None
    named: bool
    """Whether tool_choice names one function."""
    reasoning: wire.ReasoningMode
    reasoning_budget: int | None = None
    call_tokens: int | None = None
    repetition_guard: bool = True
    content: Tool | None = None
    """The schema of the content, as a tool without a name."""

    @property
    def grammars(self) -> tuple[Tool, ...]:
        """The tools, and the content's format, whose grammars the request needs."""
        return (*self.candidates, self.content) if self.content else self.candidates

    def wire(
        self, grammar_keys: dict[str, str], *, earlier_calls: int = 0, id_seed: str = ""
    ) -> wire.Enforcement:
        """Return the plan as a message to the backend. `grammar_keys` maps tool hashes to grammar
        keys. `earlier_calls` is the number of calls in the messages."""
        return wire.Enforcement(
            choice=self.choice,
            candidates=CANDIDATES.validate_python(
                [{"name": tool.name, "key": grammar_keys[tool.hash]} for tool in self.candidates]
            ),
            max_calls=self.max_calls,
            reasoning=self.reasoning,
            reasoning_budget=self.reasoning_budget,
            call_tokens=self.call_tokens,
            repetition_guard=self.repetition_guard,
            content=grammar_keys[self.content.hash] if self.content else None,
            earlier_calls=earlier_calls,
            id_seed=id_seed,
        )


def make_plan(request: ChatRequest, dialect: Dialect) -> EnforcementPlan:
    """Raise UnknownTool, InvalidTools or UnsupportedParameter, which name the parameter.

    A request to reason has no effect on a model that does not reason, as in vLLM: agents send
    `reasoning_effort` to all models."""
    choice, candidates = _choice_and_candidates(request)
    if choice == "required" and not request.tools:
        raise InvalidTools('tool_choice "required" needs at least one tool.', param="tools")
    if choice == "none" or not request.tools:
        choice, candidates = "none", ()
    elif dialect.calls is None:
        raise _no_markers(request, "calls", "tools", "the tools")
    if request.content_format and dialect.calls is None:
        raise _no_markers(request, "formats", "response_format", "response_format")
    named = isinstance(request.tool_choice, NamedTool)
    parallel = dialect.calls is not None and dialect.calls.parallel
    single = named or not request.parallel_tool_calls or not parallel
    return EnforcementPlan(
        choice=choice,
        candidates=candidates,
        max_calls=1 if single else None,
        named=named,
        reasoning=request.reasoning,
        reasoning_budget=request.reasoning_budget,
        call_tokens=request.options.call_tokens,
        repetition_guard=request.options.repetition_guard,
        # With "required" the response has no content.
        content=request.content_format if choice != "required" else None,
    )


def _choice_and_candidates(
    request: ChatRequest,
) -> tuple[Literal["none", "auto", "required"], tuple[Tool, ...]]:
    """Raise UnknownTool."""
    choice = request.tool_choice
    if isinstance(choice, NamedTool):
        return "required", _tools_named(request.tools, (choice.name,))
    if isinstance(choice, AllowedTools):
        return choice.mode, _tools_named(request.tools, choice.names)
    return choice, request.tools


def _tools_named(tools: tuple[Tool, ...], names: tuple[str, ...]) -> tuple[Tool, ...]:
    known = {tool.name for tool in tools}
    for name in names:
        if name not in known:
            raise UnknownTool(
                f"'tool_choice' names the tool {name!r}, which is not in 'tools'. Add it, or "
                "correct the name.",
                param="tool_choice",
            )
    return tuple(tool for tool in tools if tool.name in names)


def _no_markers(request: ChatRequest, what: str, param: str, cause: str) -> UnsupportedParameter:
    return UnsupportedParameter(
        f"The model {request.model!r} has no marker tokens for tool calls, so {what} cannot be "
        f"enforced. Remove {cause}.",
        param=param,
    )
