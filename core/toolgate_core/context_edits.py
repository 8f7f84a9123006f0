"""Edits that shorten a conversation before its prompt is rendered (`context_management` of the
Messages API). The client keeps the whole conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ClearThinking:
    """Leave out the reasoning of all turns of the assistant but the latest ones."""

    type: str
    """As the client wrote it."""
    keep: int | None = 1
    """Number of turns that keep theirs. None: all."""


@dataclass(frozen=True)
class ClearToolUses:
    """Replace the results of all calls but the latest ones by a short text."""

    type: str
    """As the client wrote it."""
    trigger: int = 100_000
    """The edit applies to a conversation with more than this number of `unit`."""
    unit: Literal["input_tokens", "tool_uses"] = "input_tokens"
    keep: int = 3
    """Number of calls that keep their results."""
    at_least: int = 0
    """The edit applies only if it removes this number of tokens."""
    excluded: frozenset[str] = frozenset()
    """Names of tools whose calls keep their results."""
    inputs: bool | frozenset[str] = False
    """Whether the arguments of these calls are cleared as well, or the names of the tools whose
    arguments are."""


ContextEdit = ClearThinking | ClearToolUses


@dataclass(frozen=True)
class Compaction:
    """Replace the conversation so far by a summary that the model writes."""

    trigger: int | None = None
    """A prompt with more tokens is compacted, and one that leaves no room for the response. None:
    each prompt."""
    pauses: bool = False
    """Whether the response has the summary only."""
    keeps_users: bool = False
    """Whether the client keeps the messages of users. They then stay before the summary."""
    instructions: str = ""
    """What the summary must have besides."""


@dataclass(frozen=True)
class AppliedEdit:
    edit: ContextEdit
    cleared: int
    """Number of turns or of calls."""
    tokens: int
    """How much shorter the prompt is."""
