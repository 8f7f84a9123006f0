"""What a sequence's limits on tokens leave at one point of its response."""

from __future__ import annotations

from typing import NamedTuple, Self


class Room(NamedTuple):
    tokens: int | None = None
    """Tokens that remain of the budget; None: unlimited."""
    usual_call: int = 0
    """Tokens to leave for a required call."""
    reasoning_spent: bool = False
    """Whether the budget for reasoning is used up."""
    early: bool = False
    """Whether the response is shorter than it has to be (`min_tokens`)."""

    def less(self, tokens: int) -> Self:
        """The room after further tokens."""
        return self if self.tokens is None else self._replace(tokens=self.tokens - tokens)


UNLIMITED = Room()
"""Equal for all sequences: what follows from it can be shared."""
