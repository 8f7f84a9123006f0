"""The list of all checks, which the modules of `checks/` fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .check import Check, Judge, Source
from .scenario import Scenario
from .sources import TOPICS
from .terms import Api, Severity, Suite

REGISTERED: list[Check] = []
ALL = tuple(Api)
OPENAI = (Api.CHAT, Api.RESPONSES)


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
    """Registers a check for each API, with the ID `API.NAME`.

    The decorated function judges the evidence: it returns if the rule holds and raises otherwise.
    """

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
