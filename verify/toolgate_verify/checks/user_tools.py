"""Checks of the user's own tools (`--tools`): each is called by name, with and without `strict`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..check import Check
from ..sources import TOPICS
from ..terms import Api, Severity, Suite
from ..tools.tool import Tool
from .common import calls_satisfy
from .schemas import schema_scenario


def checks_of(tools: Sequence[Tool], apis: Iterable[Api]) -> list[Check]:
    made: list[Check] = []
    for api in apis:
        for tool in tools:
            for family, strict in (("own_strict", True), ("own", False)):
                name = f"{family}.{tool.name}"
                made.append(
                    Check(
                        f"{api}.{name}",
                        f"Your tool {tool.name}{', strict' if strict else ''}",
                        api,
                        Suite.QUICK,
                        Severity.CRITICAL,
                        tool.rule,
                        TOPICS["strict"][api],
                        schema_scenario(tool, strict=strict, name=name)(api),
                        calls_satisfy,
                    )
                )
    return made
