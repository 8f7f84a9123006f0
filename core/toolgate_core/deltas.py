"""Events of one choice: the segmenter makes them of tokens, the gateway makes chunks of them."""

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
    """The start of a call, with the name of its tool.

    `logprobs`, here and in the two events below, are those of the tokens between the call's marker
    tokens, in order. A token may extend into the text of the next event."""

    index: int
    name: str
    logprobs: tuple[TokenLogprob, ...] = ()
    id: str | None = None
    """The id that the model wrote, in the form of the API; None if the dialect has no ids."""
    custom: bool = False
    """Whether the tool is a custom tool, so that `InputDelta` events follow."""


@dataclass(frozen=True)
class ArgumentsDelta:
    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class InputDelta:
    """Plain text of a custom tool's input."""

    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class CallEnd:
    """The call is complete, and its arguments are valid JSON."""

    index: int
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class Finish:
    """The end of a choice. `reason` is OpenAI's finish_reason, except that a call of a named
    function ends with `stop` in the response."""

    reason: str
    stop_reason: int | str | None = None
    """The stop string, or the token of `stop_token_ids`, that ended the content."""
    call: Literal["cut"] | None = None
    """`cut`: the last call is incomplete."""
    repeats: bool = False
    """Whether the choice was cut because it repeats itself."""


Event = ReasoningDelta | ContentDelta | CallStart | ArgumentsDelta | InputDelta | CallEnd | Finish
