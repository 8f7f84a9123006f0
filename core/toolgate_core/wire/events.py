"""The events of a response."""

from __future__ import annotations

from collections.abc import Sequence
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from .message import Count, Many, Message, Name
from .request import GrammarVerdict

Byte = Annotated[int, Field(ge=0, le=255)]
Logprob = Annotated[float, Field(allow_inf_nan=False)]


class TopLogprob(Message):
    token: str
    bytes: Many[Byte]
    logprob: Logprob


class TokenLogprob(TopLogprob):
    top: Many[TopLogprob] = ()


Adaptation = Literal["system", "joined", "added", "split", "as_text"]


class StartEvent(Message):
    event: Literal["start"] = "start"
    prompt_tokens: Count
    reasoning_open: bool
    """Whether the rendered prompt ends inside the reasoning, which the first token continues."""
    max_tokens: Count | None = None
    """Maximum number of tokens of each choice: as requested, or the rest of the context."""
    prompt_token_ids: Many[Count] | None = None
    prompt_text: str | None = None
    adapted: Many[tuple[Adaptation, Count]] = Field(default=(), exclude_if=not_)
    """The messages of the prompt that the template accepts in another form only."""
    verdicts: Many[GrammarVerdict] = Field(default=(), exclude_if=not_)
    """Of the grammars whose verdict the request asks for, with their blobs."""
    fingerprint: Name = Field(default="", exclude_if=not_)
    replica: Name = Field(default="", exclude_if=not_)
    """As in `Info`."""


MAX_PROMPT_LOGPROBS = 50_000
"""Most entries of `prompt_logprobs` in a response: for each token of the prompt its own and the
alternatives. To parse as many takes a tenth of a second, in which no other request continues."""


@with_config(ConfigDict(extra="forbid"))
class PromptLogprob(TypedDict):
    """A dict, because a response has many of them, and clients get them as they are."""

    logprob: Logprob
    rank: Count | None
    decoded_token: str


class TokensEvent(Message):
    """New tokens of one choice. `texts[i]` is the text that `ids[i]` completes. It is empty while
    the bytes of a character are incomplete. The texts of a choice join to its complete text."""

    event: Literal["tokens"] = "tokens"
    choice: Count
    ids: Many[Count]
    texts: Many[str]
    logprobs: Many[TokenLogprob] | None = None
    cached_tokens: Count | None = None
    """Number of cached tokens of the prompt. Only in the first event of a response."""
    prompt_logprobs: Many[dict[Count, PromptLogprob] | None] | None = None
    """Logprobs of each token of the prompt, by token id. Only in a response's first event."""


TracePhase = Literal["thinking", "content", "format", "tool_call", "select", "end"]
TokenKind = Literal["forced", "masked", "free"]


class TokenTrace(Message):
    """How one token was constrained.

    `kind`: `forced` if it was the only token that the mask allowed, `free` in reasoning and content
    without a grammar, where all text is allowed, and otherwise `masked`."""

    at: Count
    """Position in the choice. Tokens of a request that continues `accepted` follow those."""
    id: Count
    text: str
    phase: TracePhase
    """Phase of the automaton before the token."""
    kind: TokenKind
    allowed: Count
    """Number of tokens that the mask allowed."""


class TraceEvent(Message):
    """The traces of the tokens in the next TokensEvent of the choice. Only if the request asks for
    them."""

    event: Literal["trace"] = "trace"
    choice: Count
    tokens: Many[TokenTrace]


class EndEvent(Message):
    """The end of one choice. `stop_reason` is the id of the token that ended it, if one did."""

    event: Literal["end"] = "end"
    choice: Count
    finish_reason: Literal["stop", "length", "abort", "error"]
    stop_reason: Count | str | None = None
    text: str = ""
    """The rest of an incomplete character, as U+FFFD."""


class UsageEvent(Message):
    event: Literal["usage"] = "usage"
    prompt_tokens: Count
    completion_tokens: Count
    cached_tokens: Count = 0


class ErrorEvent(Message):
    """An error after the start of the response, which ends here. `status` is its HTTP status."""

    event: Literal["error"] = "error"
    status: Annotated[int, Field(ge=400, le=599)]
    error: dict[str, Any]


StreamEvent = Annotated[
    StartEvent | TokensEvent | TraceEvent | EndEvent | UsageEvent | ErrorEvent,
    Field(discriminator="event"),
]

stream_events: TypeAdapter[list[StreamEvent]] = TypeAdapter(
    Annotated[list[StreamEvent], Field(fail_fast=True)]
)


def joined(events: Sequence[TokensEvent]) -> TokensEvent:
    """Return one event with the tokens of several, which are of one choice. Either all of them have
    logprobs, or none."""
    first = events[0]
    if len(events) == 1:
        return first
    logprobs = [logprob for each in events for logprob in each.logprobs or ()]
    return first.model_copy(
        update={
            "ids": tuple([token for each in events for token in each.ids]),
            "texts": tuple([text for each in events for text in each.texts]),
            "logprobs": None if first.logprobs is None else tuple(logprobs),
        }
    )
