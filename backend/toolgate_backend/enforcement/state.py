"""The state of a turn: an immutable value, which equal sequences share.

It does not contain what differs between sequences in the same position: lengths, counts, and what
remains of budgets, which is the `Remaining`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple, Self

from .candidates import Candidates


class Phase(Enum):
    THINKING = auto()
    CONTENT = auto()
    FORMAT = auto()
    """Content that is constrained by a schema, from its first token on."""
    TOOL_CALL = auto()
    SELECT = auto()
    """After a call: another call, or the end of the turn."""
    END = auto()


class State(NamedTuple):
    phase: Phase
    forced: tuple[int, ...] = ()
    """Tokens that must come next, in this order, before the phase continues."""
    after_forced: Phase = Phase.END
    """The phase that begins when `forced` is done: THINKING, CONTENT, SELECT or END."""
    may_reason: bool = False
    message: str = ""
    """The message of content that has begun, if the family writes typed messages: `content` or
    `preamble`."""
    at_start: bool = True
    """Whether the content so far is empty or the beginning of the text that begins calls."""
    partial_trigger: bytes = b""
    """The end of a free phase's text, if it is the beginning of the text that ends the phase."""
    partial_mark: bytes = b""
    """The end of a free phase's text, if it is the beginning of a mark in ordinary tokens."""
    recent_tokens: tuple[int, ...] = ()
    """The last tokens of a free phase, as many as the longest banned sequence can need."""
    calls: int = 0
    candidates: Candidates | None = None
    """The texts that the current call, or the constrained content, can still become. Those of a
    call include the text before it."""
    cut: bool = False
    """Whether a call or constrained content is cut here: the turn ends with the mark of cuts."""
    ended: bool = False


class Remaining(NamedTuple):
    """What a sequence's limits on tokens leave at one point of its response."""

    tokens: int | None = None
    """Tokens that remain of the budget; None: unlimited."""
    usual_call: int = 0
    """Tokens to leave for a required call."""
    reasoning_spent: bool = False
    """Whether the budget for reasoning is used up."""
    early: bool = False
    """Whether the response is shorter than it has to be (`min_tokens`)."""

    def less(self, tokens: int) -> Self:
        """Return what remains after further tokens."""
        return self if self.tokens is None else self._replace(tokens=self.tokens - tokens)


UNLIMITED = Remaining()
"""Equal for all sequences: what follows from it can be shared."""
