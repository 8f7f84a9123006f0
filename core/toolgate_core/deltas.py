"""What an answer is made of: what the segmenter makes of tokens, and the gateway shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .wire import TokenLogprob


@dataclass(frozen=True)
class ReasoningDelta:
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class ContentDelta:
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class CallStart:
    """`logprobs` here and in the two below: of the tokens between the call's marks, in order. They
    spell the whole call as the model wrote it, so a token may reach over into the next event."""

    index: int
    name: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class ArgumentsDelta:
    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class CallEnd:
    """The call is whole: its arguments were parsed."""

    index: int
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class Finish:
    """`reason` is OpenAI's finish_reason, but for the named function's `stop` (see answer)."""

    reason: str
    stop_reason: int | str | None = None
    """The stop string, or the token among the request's stop_token_ids, that ended the content."""
    call: Literal["cut", "closed"] | None = None
    """What the token budget did to the last call: it is not whole, or its end was forced."""


Event = ReasoningDelta | ContentDelta | CallStart | ArgumentsDelta | CallEnd | Finish
