"""The mix of conversations that the model is trained and judged on."""

from __future__ import annotations

from collections.abc import Callable

from . import asked, loops, rounds
from .dialogue import Dialogue
from .drawing import Drawing
from .words import Language, Words

# Shares of the mix.
MIX: dict[str, float] = {
    "call": 0.13, "rounds": 0.34, "two tools": 0.08, "no tool": 0.13, "may not": 0.015, "forced": 0.01, "talk": 0.04, "missing": 0.01,
    "result": 0.13, "follow-up": 0.035, "serial": 0.025, "chain": 0.02, "history": 0.035,
}  # fmt: skip
ZH, THINKING = 0.1, 0.08

MAKERS: dict[str, Callable[[Drawing, Words, bool], Dialogue]] = {
    "call": asked.call,
    "rounds": rounds.rounds,
    "two tools": asked.two_tools,
    "no tool": asked.no_tool,
    "may not": asked.may_not,
    "forced": asked.forced,
    "talk": asked.small_talk,
    "missing": asked.missing,
    "result": loops.result,
    "follow-up": loops.follow_up,
    "serial": loops.serial,
    "chain": loops.chain,
    "history": loops.history,
}


class Source(Drawing):
    """Draws whole conversations."""

    def draw(self, category: str | None = None, language: Language | None = None) -> Dialogue:
        if category is None:
            category = self.rng.choices(list(MIX), list(MIX.values()))[0]
            if self.short:
                category = self.rng.choice(("rounds", "rounds", "call", "no tool"))
        language = language or ("zh" if self.rng.random() < ZH else "en")
        thinking = self.rng.random() < THINKING
        return MAKERS[category](self, self.words(language), thinking)
