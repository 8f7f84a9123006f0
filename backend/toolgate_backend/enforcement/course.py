"""What a sequence knows beside its node."""

from __future__ import annotations

from typing import NamedTuple

from .closing import NEVER, Plan
from .turn_graph import Entry


class Course(NamedTuple):
    """It changes where something begins or ends."""

    entry: Entry | None = None
    """That of a node of a grammar's graph."""
    began: int = 0
    """The length at which the text of the state's candidates began."""
    reasoning: int = 0
    """Number of reasoning tokens before `thinking`."""
    thinking: int | None = None
    """The length at which the present reasoning began; None if there is none."""
    plan: Plan = Plan()
    look: int = NEVER
    """The length at which to look whether the call must be closed."""
    limited: int = NEVER
    """The length from which on limits on tokens may decide, so that edges and masks of the node do
    not hold."""

    def reasoning_at(self, length: int) -> int:
        """The number of reasoning tokens at this length of the sequence."""
        return self.reasoning + (0 if self.thinking is None else length - self.thinking)
