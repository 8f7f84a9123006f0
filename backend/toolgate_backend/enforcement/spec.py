"""What one sequence is held to, as it travels to the engine inside vLLM's `extra_args`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

EXTRA_ARG = "toolgate"

ReasoningStart = Literal["open", "must", "may", "closed"]
"""`open`: the prompt ends inside the reasoning; `must`: the first token begins it; `may`: the model
chooses; `closed`: there is none."""


@dataclass(frozen=True)
class Spec:
    choice: Literal["none", "auto", "required"]
    keys: tuple[str, ...] = ()
    """Grammar keys of the tools that may be called."""
    max_calls: int | None = None
    reasoning: ReasoningStart = "closed"
    skip_reasoning: bool = False
    """The prompt opened a reasoning that the request does not want: it is closed at once."""
    reasoning_budget: int | None = None
    """Tokens after which the reasoning is closed."""
    budget: int | None = None
    """Tokens that the sequence may take in all; None knows no end."""
    close_at_budget: bool = False
    """A call that the budget would cut is closed instead."""
    content: str | None = None
    """Grammar key of what the content is held to."""
    min_tokens: int = 0
    accepted: tuple[int, ...] = ()
    """Tokens of an earlier answer that this sequence goes on from."""
    ignore_end: bool = False
    """Content does not end by itself."""
    stop_ids: tuple[int, ...] = ()
    """Tokens that end the content."""
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Sequences of tokens that don't come in reasoning or content."""

    def to_extra_args(self) -> dict[str, Any]:
        return {EXTRA_ARG: asdict(self)}


def from_extra_args(extra_args: dict[str, Any] | None) -> Spec | None:
    fields = (extra_args or {}).get(EXTRA_ARG)
    if fields is None:
        return None
    lists = {name: tuple(fields[name]) for name in ("keys", "stop_ids", "accepted")}
    words = tuple(tuple(word) for word in fields["bad_words"])
    return Spec(**{**fields, **lists, "bad_words": words})
