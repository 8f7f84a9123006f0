"""What a model answers, event by event."""

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
    """The rendered prompt ends inside the reasoning: the first token continues it."""
    max_tokens: int | None = None
    """Tokens that each choice may take: the request's, or what the model's context has room for."""
    prompt_token_ids: tuple[int, ...] | None = None
    prompt_text: str | None = None


class PromptLogprob(Message):
    logprob: float
    rank: int | None = None
    decoded_token: str


class TokensEvent(Message):
    """New tokens of one choice. `texts[i]` is the text that `ids[i]` completed: empty while a
    character's bytes are not all there, so that the texts of a choice join to its whole text."""

    event: Literal["tokens"] = "tokens"
    choice: int
    ids: tuple[int, ...]
    texts: tuple[str, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    cached_tokens: int | None = None
    """Of the prompt; with the first tokens of an answer, when the engine has begun on it."""
    prompt_logprobs: tuple[dict[int, PromptLogprob] | None, ...] | None = None
    """With the first tokens too: of each token of the prompt, by token id."""


class EndEvent(Message):
    """One choice has ended. `stop_reason` is the token id that ended it, when one did."""

    event: Literal["end"] = "end"
    choice: int
    finish_reason: Literal["stop", "length", "abort", "error"]
    stop_reason: int | str | None = None
    text: str = ""
    """What was left of an unfinished character, as U+FFFD."""


class UsageEvent(Message):
    event: Literal["usage"] = "usage"
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


class ErrorEvent(Message):
    """The stream ends here, in the middle of the answer. `status` is what it would have been."""

    event: Literal["error"] = "error"
    status: int
    error: dict[str, Any]


StreamEvent = Annotated[
    StartEvent | TokensEvent | EndEvent | UsageEvent | ErrorEvent, Field(discriminator="event")
]

stream_event: TypeAdapter[StreamEvent] = TypeAdapter(StreamEvent)
stream_events: TypeAdapter[list[StreamEvent]] = TypeAdapter(list[StreamEvent])
