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
    min_tokens: int = 0
    accepted: tuple[int, ...] = ()
    """Tokens of an earlier answer that this sequence goes on from."""

    def to_extra_args(self) -> dict[str, Any]:
        return {EXTRA_ARG: asdict(self)}


def from_extra_args(extra_args: dict[str, Any] | None) -> Spec | None:
    fields = (extra_args or {}).get(EXTRA_ARG)
    if fields is None:
        return None
    lists = {name: tuple(fields[name]) for name in ("keys", "accepted")}
    return Spec(**{**fields, **lists})
