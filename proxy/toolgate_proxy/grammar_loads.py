"""Where the grammars of a request came from, and how long that took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tier = Literal["memory", "redis", "compiled"]
TIERS: tuple[Tier, ...] = ("memory", "redis", "compiled")
"""Sources of a grammar, the fastest first."""


def slowest(*tiers: Tier) -> Tier:
    return max(tiers, key=TIERS.index, default="memory")


@dataclass
class GrammarLoads:
    number: int = 0
    """Number of the grammars."""
    _tier: Tier = "memory"
    _milliseconds: float = 0.0

    def note(self, number: int, tier: Tier, milliseconds: float) -> None:
        """Note a load. A request that is sent again loads again."""
        self.number = number
        self._tier = slowest(self._tier, tier)
        self._milliseconds += milliseconds

    @property
    def tier(self) -> Tier | None:
        """The slowest source. None without grammars."""
        return self._tier if self.number else None

    @property
    def header(self) -> str | None:
        """Value of `x-toolgate-grammar`, with the total time. None without grammars."""
        if not self.number:
            return None
        return f"{self._tier}; n={self.number}; ms={self._milliseconds:.1f}"
