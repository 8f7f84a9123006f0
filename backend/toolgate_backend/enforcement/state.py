"""Where one sequence's enforcement stands: a value, replaced at each token."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from ..grammars.completion import Scan
from .candidates import CandidateSet

NO_TEXT = Scan()


class Phase(Enum):
    THINKING = auto()
    CONTENT = auto()
    FORMAT = auto()
    """Content that is held to a schema, once it has begun."""
    TOOL_CALL = auto()
    SELECT = auto()
    END = auto()


class State(NamedTuple):
    """A tuple, for `_replace`: `dataclasses.replace` takes five times as long, at each token."""

    phase: Phase
    forced: tuple[int, ...] = ()
    """Tokens that must come next, in this order, before the phase goes on."""
    may_think: bool = False
    tail: bytes = b""
    """The last bytes of a free phase's text, as far as a spelt-out mark can reach."""
    recent: tuple[int, ...] = ()
    """The last tokens of a free phase, as far as a banned sequence can reach."""
    thought: int = 0
    calls: int = 0
    union: CandidateSet | None = None
    """The grammars of the call, or of the content."""
    taken: int = 0
    """Tokens that `union` has taken."""
    scan: Scan = NO_TEXT
    """Of the call's text; followed where it may have to be closed."""
    ask_at: int = 0
    """The length at which to ask whether the call must be closed."""
    closing: bool = False
    ended: bool = False
