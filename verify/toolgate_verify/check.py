"""A check: one rule of a public specification, the scenario that shows it, and its judgement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .scenario import Evidence, Scenario
from .terms import Api, Severity, Suite


@dataclass(frozen=True)
class Source:
    """Where a rule is specified. The rule itself is in our own words."""

    section: str
    url: str


Judge = Callable[[Evidence], None]


@dataclass(frozen=True)
class Check:
    id: str
    """`API.FAMILY.RULE`."""
    title: str
    api: Api
    suite: Suite
    severity: Severity
    rule: str
    """What the specification requires, as one sentence in our own words."""
    source: Source
    scenario: Scenario
    judge: Judge
    confirm: bool = False
    """Whether a failure counts only if it occurs again when the scenario runs alone. For rules
    that batching may break by rounding, such as equality at temperature 0."""

    @property
    def family(self) -> str:
        return self.id.split(".")[1]
