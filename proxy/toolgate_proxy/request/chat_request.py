"""A chat completion request after parsing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from toolgate_core import wire
from toolgate_core.tools import Tool

from .gateway_tools import GatewayTool, PendingCall


@dataclass(frozen=True)
class NamedTool:
    name: str
    """Of the tool of which the choice requires exactly one call."""


@dataclass(frozen=True)
class AllowedTools:
    mode: Literal["auto", "required"]
    """Whether the model may call one of the tools, or must."""
    names: tuple[str, ...]
    """The prompt has other tools, too."""


ToolChoice = Literal["none", "auto", "required"] | NamedTool | AllowedTools

Change = wire.Adaptation | Literal["arguments", "lost_call", "no_result", "left_out", "image"]


@dataclass(frozen=True)
class HistoryChange:
    """A place of the conversation so far that the model sees in another form than it was sent:

    - `arguments`: the arguments of a call were no JSON object. The model sees `{}`.
    - `lost_call`: a result without its call. The model sees a call with the arguments `{}`.
    - `no_result`: a call without a result. The model sees `[no result]`.
    - `as_text`: an entry of another service, of which the model sees the text; or a call or
      result, for a model whose template has no form for it.
    - `left_out`: an entry or a field of another service without text for the model, or a line of a
      system text that is for accounting.
    - `image`: an image in the result of a call, for a model that takes text only.
    - `system`, `joined`, `added`, `split`: a message that the model's template does not accept at
      its place. The model sees a system message as text of the user, one message instead of two, a
      message without text before it, or its calls one after the other.
    """

    kind: Change
    path: str
    """In the request's body."""


class Shortener(Protocol):
    """Shortens the conversation of a request at a backend. The requests that it makes have none."""

    async def edited(self, run: Any, request: ChatRequest) -> ChatRequest:
        """Return the request whose prompt is counted. Raise ToolgateError."""

    def respond(self, run: Any, request: ChatRequest) -> AbstractAsyncContextManager[Any]:
        """Respond in place of the loop of tools, which has the same arguments."""


@dataclass(frozen=True)
class ToolgateOptions:
    call_tokens: int | None = None
    """Tokens that the reasoning leaves for a required call; None: as many as it usually needs."""
    fit_max_tokens: bool = False
    """Whether `max_tokens` is lowered to what the context leaves."""
    repetition_guard: bool = True
    """Whether a call, or content of a format, that repeats itself is cut."""


@dataclass(frozen=True)
class Extras:
    return_token_ids: bool = False
    return_prompt_text: bool = False
    tokens_as_ids: bool = False
    """Whether logprobs show tokens as `token_id:<id>`."""
    trace: bool = False
    """Whether a stream of chat completions has a trace of its tokens."""


@dataclass(frozen=True)
class ChatRequest:
    """A chat completion request: all parameters validated, defaults filled in."""

    request_id: str
    """The engine's id of the request. It is unique."""
    model: str
    messages: tuple[dict[str, Any], ...]
    tools: tuple[Tool, ...] = ()
    """The tools that can be called: those that are loaded at the end of the messages."""
    listed_tools: tuple[Tool, ...] | None = None
    """The tools that the prompt lists at its beginning, if they are not `tools`. The messages have
    the definitions of others, each where it was added (`wire.TOOL_DEFINITIONS`)."""
    gateway_tools: Mapping[str, GatewayTool] = field(default_factory=dict)
    """Those of `tools`, and of deferred tools, that the gateway runs, by name."""
    pending_calls: tuple[PendingCall, ...] = ()
    """Calls that the gateway runs before the response."""
    max_tool_calls: int | None = None
    """Most calls that the gateway runs in the response."""
    optional_tools: frozenset[str] = frozenset()
    """The names of tools that are left out if invalid, since the client did not write them."""
    drop_oldest: bool = False
    """Whether the oldest turns are dropped if the prompt exceeds the context."""
    shortener: Shortener | None = None
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    reasoning: wire.ReasoningMode = "default"
    template_kwargs: dict[str, Any] | None = None
    sampling: wire.Sampling = field(default_factory=wire.Sampling)
    reasoning_budget: int | None = None
    """Maximum number of reasoning tokens."""
    options: ToolgateOptions = ToolgateOptions()
    """The parameter `toolgate`."""
    content_format: Tool | None = None
    """The schema of the content, as a tool with the name `grammar_key.CONTENT`."""
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    """Whether the content includes the stop string that ended it."""
    stream: bool = False
    include_reasoning: bool = True
    extras: Extras = Extras()
    """What the response has besides its content."""
    tokenizing: wire.Tokenizing = field(default_factory=wire.Tokenizing)
    answer_id: str | None = None
    """The id of the response that the client set."""
    echo: str = ""
    """The text of the message that the response continues. The content begins with it."""
    priority: int = 0
    cache_salt: str | None = None
    message_paths: tuple[str, ...] = ()
    """The path of each message in the request's body."""

    @cached_property
    def part_types(self) -> frozenset[str]:
        """The types of the content parts in all messages."""
        contents = [message.get("content") for message in self.messages]
        return frozenset(
            part["type"] for each in contents if isinstance(each, list) for part in each
        )

    @property
    def prompt_tools(self) -> tuple[Tool, ...]:
        """The tools that the prompt lists at its beginning."""
        return self.tools if self.listed_tools is None else self.listed_tools
