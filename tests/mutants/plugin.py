"""Plug-in of pytest: records which test runs which lines, or runs the tests of each mutant.

With `TOOLGATE_MUTANTS=FILE` (a list of mutants, each with its tests) the tests are collected once,
and a process is forked for each mutant. It ends with the first test that fails.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .mutant import Mutant

SETTING = "TOOLGATE_MUTANTS"
ITEMS_OF_A_TEST = 8
"""Number of cases of a parametrized test that run for a mutant, evenly chosen."""
SECONDS = 300
"""Time after which a mutant counts as one that lives."""


def base(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    try:
        from coverage import Coverage
    except ImportError:
        return (yield)
    current = Coverage.current()
    if current is not None:
        current.switch_context(base(item))
    try:
        return (yield)
    finally:
        if current is not None:
            current.switch_context("")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    path = os.environ.get(SETTING)
    if not path:
        return None
    for row in json.loads(Path(path).read_text()):
        mutant = Mutant(**row["mutant"])
        original = mutant.path.read_text()
        try:
            pid = os.fork()
            if pid == 0:
                _judge(session, mutant, set(row["tests"]), Path(row["out"]))
            os.waitpid(pid, 0)
        finally:
            mutant.path.write_text(original)
    return True


def _judge(session: pytest.Session, mutant: Mutant, tests: set[str], out: Path) -> None:
    """Run the tests with the fault, write the verdict and end the process."""
    began, verdict = time.monotonic(), dict[str, Any]()
    try:
        items = _sample([item for item in session.items if base(item) in tests])
        text = mutant.source()
        mutant.install()
        mutant.path.write_text(text)  # for the processes that the tests start
        verdict = {"items": len(items), "killed_by": None}
        failed = _Failures()
        session.config.pluginmanager.register(failed)
        for at, item in enumerate(items):
            following = items[at + 1] if at + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if failed.ids or time.monotonic() - began > SECONDS:
                verdict |= {"killed_by": next(iter(failed.ids), None), "ran": at + 1}
                break
    except BaseException as error:  # noqa: BLE001 - also SystemExit of a test
        verdict = {"error": repr(error)}
    verdict["seconds"] = round(time.monotonic() - began, 1)
    out.write_text(json.dumps(verdict))
    os._exit(0)


class _Failures:
    def __init__(self) -> None:
        self.ids: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.ids.append(report.nodeid)


def _sample(items: list[pytest.Item]) -> list[pytest.Item]:
    count = Counter(map(base, items))
    seen, chosen = Counter[str](), list[pytest.Item]()
    for item in items:
        name = base(item)
        step = -(-count[name] // ITEMS_OF_A_TEST)
        if seen[name] % step == 0:
            chosen.append(item)
        seen[name] += 1
    return chosen
