"""A check: one rule of a public specification, the scenario that shows it, and its judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .scenario import Evidence, Scenario
from .sources import TOPICS, Source
from .terms import Api, Severity, Suite

ALL = tuple(Api)
OPENAI = (Api.CHAT, Api.RESPONSES)
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


REGISTERED: list[Check] = []
"""All checks, once the modules of `checks/` have been imported."""


def rule(
    name: str,
    title: str,
    requirement: str,
    *,
    topic: str | Source,
    scenario: Callable[[Api], Scenario],
    apis: Iterable[Api] = ALL,
    suite: Suite = Suite.QUICK,
    severity: Severity = Severity.MAJOR,
    confirm: bool = False,
) -> Callable[[Judge], Judge]:
    """Register a check for each API, with the ID `API.NAME`.

    The decorated function judges the evidence: it raises if the rule is broken."""

    def register(judge: Judge) -> Judge:
        for api in apis:
            source = topic if isinstance(topic, Source) else TOPICS[topic][api]
            REGISTERED.append(
                Check(
                    f"{api}.{name}",
                    title,
                    api,
                    suite,
                    severity,
                    requirement,
                    source,
                    scenario(api),
                    judge,
                    confirm,
                )
            )
        return judge

    return register
