"""The state of one sequence's enforcement: an immutable value, replaced at each token."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from ..grammars.completions.scan import Scan
from .calls.candidates import CandidateSet

NO_TEXT = Scan()


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
    """A NamedTuple because `_replace` runs at each token: `dataclasses.replace` takes five times as
    long."""

    phase: Phase
    forced: tuple[int, ...] = ()
    """Tokens that must come next, in this order, before the phase continues."""
    after_forced: Phase | None = None
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
    reasoning_tokens: int = 0
    calls: int = 0
    candidates: CandidateSet | None = None
    """The grammars of the current call, or of the constrained content."""
    grammar_tokens: int = 0
    """Number of tokens that `candidates` has accepted. The candidates of a call include the text
    before it."""
    scan: Scan = NO_TEXT
    """Position in the JSON text of the call or content; updated only if it may have to be
    closed."""
    next_budget_check: int = 0
    """The sequence length at which to check again whether the call must be closed."""
    completion: tuple[int, ...] = ()
    """The completion of the call that the last of these checks found."""
    closing: bool = False
    """The end of the call or of constrained content, or of a repeated string in it, was forced: the
    turn ends after it, with the mark of closed calls."""
    ended: bool = False

    def after_grammar_token(self, scan: Scan) -> State:
        """`_replace` of `grammar_tokens` and `scan`, in a third of the time."""
        begin, end = self[:_GRAMMAR_TOKENS], self[_GRAMMAR_TOKENS + 2 :]
        return State._make((*begin, self.grammar_tokens + 1, scan, *end))


_GRAMMAR_TOKENS = State._fields.index("grammar_tokens")
assert State._fields[_GRAMMAR_TOKENS + 1] == "scan"
