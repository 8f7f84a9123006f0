"""Several choices (`n`) and seeds of chat completions."""

from __future__ import annotations

from functools import partial

from ...asking.ask import Ask
from ...check import rule
from ...scenario import Evidence
from ...terms import Severity, Suite, require
from ..common import paired, same_text
from ..text import usage_of
from .chunks import CHAT

TWO = paired("two_choices", Ask(max_tokens=24, temperature=1, extra={"n": 2, "seed": 7}))
SEEDED = paired("seed", Ask(max_tokens=32, temperature=1, extra={"seed": 1234}))

_rule = partial(rule, scenario=TWO, apis=CHAT, suite=Suite.FULL)


@_rule(
    "n.whole",
    "`n: 2` gives two choices",
    "An answer has `n` choices, numbered from 0.",
    topic="request",
)
def _two(evidence: Evidence) -> None:
    evidence.answer(0)
    indices = [choice.get("index") for choice in evidence.ok(0).body["choices"]]
    require(indices == [0, 1], f"choices with the indices {indices}")


@_rule(
    "n.streamed",
    "A stream with `n: 2` finishes both choices",
    "Each choice of a stream has a role, its own index and one finish reason.",
    topic="stream",
)
def _two_streamed(evidence: Evidence) -> None:
    roles, reasons = set[int](), list[int]()
    for chunk in evidence.events():
        for choice in chunk.get("choices") or ():
            if (choice.get("delta") or {}).get("role"):
                roles.add(choice.get("index"))
            if choice.get("finish_reason"):
                reasons.append(choice.get("index"))
    require(roles == {0, 1}, f"choices with a role: {sorted(roles)}")
    require(sorted(reasons) == [0, 1], f"choices with a finish reason: {sorted(reasons)}")


@_rule(
    "n.usage",
    "Usage covers all choices",
    "The output tokens are those of all choices together.",
    topic="usage",
)
def _two_usage(evidence: Evidence) -> None:
    usage = usage_of(evidence.whole)
    reasons = [choice.get("finish_reason") for choice in evidence.ok(0).body["choices"]]
    cut = reasons.count("length")
    least = cut * evidence.ask.max_tokens
    require(usage.completion >= least, f"{usage.completion} tokens, but {cut} cut")


_rule(
    "seed.same",
    "The same seed gives the same answer",
    "With the same `seed` and parameters, answers are the same (best effort).",
    topic="request",
    scenario=SEEDED,
    severity=Severity.MINOR,
    confirm=True,
)(same_text)
