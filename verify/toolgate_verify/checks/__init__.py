"""All checks, and the selection of some. Each module registers those of one subject."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from ..check import ALL, REGISTERED, Check
from ..terms import Api, Suite

MODULES = (
    "text",
    "calls",
    "choice",
    "cut_calls",
    "schemas",
    "stops",
    "formats",
    "reasoning",
    "histories",
    "errors.common",
    "errors.own",
    "load",
    "chat.chunks",
    "chat.choices",
    "logprobs",
    "responses.body",
    "responses.events",
    "responses.state",
    "messages.body",
    "messages.events",
)


def all_checks() -> tuple[Check, ...]:
    """All checks, in the order of the modules, which register theirs when they are imported."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
    return tuple(REGISTERED)


def select(
    apis: Iterable[Api] = ALL, suite: Suite = Suite.FULL, only: Iterable[str] = ()
) -> list[Check]:
    """The checks of the APIs and the suite. `only` has IDs, or beginnings of IDs at a dot, with or
    without the API. It selects from both suites. Raises ValueError for one that selects nothing."""
    offered = [check for check in all_checks() if check.api in set(apis)]
    only = [*only]
    if not only:
        return [check for check in offered if suite == Suite.FULL or check.suite == suite]
    chosen: list[Check] = []
    for name in only:
        matching = [check for check in offered if _matches(check.id, name)]
        if not matching:
            raise ValueError(f"no check of these APIs is named {name!r}; --list lists them")
        chosen += matching
    return [check for check in offered if check in chosen]


def _matches(check_id: str, name: str) -> bool:
    short = check_id.split(".", 1)[1]
    return any(each == name or each.startswith(f"{name}.") for each in (check_id, short))
