"""The events of a response."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from .message import Message


class TopLogprob(Message):
    token: str
    bytes: tuple[int, ...]
    logprob: float


class TokenLogprob(TopLogprob):
    top: tuple[TopLogprob, ...] = ()


class StartEvent(Message):
    event: Literal["start"] = "start"
    prompt_tokens: int
    reasoning_open: bool
    """Whether the rendered prompt ends inside the reasoning, which the first token continues."""
    max_tokens: int | None = None
    """Maximum number of tokens of each choice: as requested, or the rest of the context."""
    prompt_token_ids: tuple[int, ...] | None = None
    prompt_text: str | None = None


class PromptLogprob(Message):
    logprob: float
    rank: int | None = None
    decoded_token: str


class TokensEvent(Message):
    """New tokens of one choice. `texts[i]` is the text that `ids[i]` completes. It is empty while
    the bytes of a character are incomplete. The texts of a choice join to its complete text."""

    event: Literal["tokens"] = "tokens"
    choice: int
    ids: tuple[int, ...]
    texts: tuple[str, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    cached_tokens: int | None = None
    """Number of cached tokens of the prompt. Only in the first event of a response."""
    prompt_logprobs: tuple[dict[int, PromptLogprob] | None, ...] | None = None
    """Logprobs of each token of the prompt, by token id. Only in a response's first event."""


TracePhase = Literal["thinking", "content", "format", "tool_call", "select", "end"]
TokenKind = Literal["forced", "masked", "free"]


class TokenTrace(Message):
    """How one token was constrained.

    `kind`: `forced` if it was the only token that the mask allowed, `free` in reasoning and content
    without a grammar, where all text is allowed, and otherwise `masked`."""

    at: int
    """Position in the choice. Tokens of a request that continues `accepted` follow those."""
    id: int
    text: str
    phase: TracePhase
    """Phase of the automaton before the token."""
    kind: TokenKind
    allowed: int
    """Number of tokens that the mask allowed."""


class TraceEvent(Message):
    """The traces of the tokens in the next TokensEvent of the choice. Only if the request asks for
    them."""

    event: Literal["trace"] = "trace"
    choice: int
    tokens: tuple[TokenTrace, ...]


class EndEvent(Message):
    """The end of one choice. `stop_reason` is the id of the token that ended it, if one did."""

    event: Literal["end"] = "end"
    choice: int
    finish_reason: Literal["stop", "length", "abort", "error"]
    stop_reason: int | str | None = None
    text: str = ""
    """The rest of an incomplete character, as U+FFFD."""


class UsageEvent(Message):
    event: Literal["usage"] = "usage"
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


class ErrorEvent(Message):
    """An error after the start of the response, which ends here. `status` is its HTTP status."""

    event: Literal["error"] = "error"
    status: int
    error: dict[str, Any]


StreamEvent = Annotated[
    StartEvent | TokensEvent | TraceEvent | EndEvent | UsageEvent | ErrorEvent,
    Field(discriminator="event"),
]

stream_event: TypeAdapter[StreamEvent] = TypeAdapter(StreamEvent)
stream_events: TypeAdapter[list[StreamEvent]] = TypeAdapter(list[StreamEvent])
