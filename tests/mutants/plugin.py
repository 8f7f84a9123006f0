"""Plug-in of pytest: records which test runs the line of which mutant, or runs those tests with it.

With `TOOLGATE_MUTANTS=FILE` (a list of mutants, each with its tests) the tests are collected once,
and a process is forked for each mutant. It ends with the first test that fails.
"""

import importlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from .mutant import Mutant
from .probes import MODULE

SETTING = "TOOLGATE_MUTANTS"
SECONDS = 120
"""Time after which a mutant counts as one that lives."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    if not MODULE.exists():
        return (yield)
    probes = importlib.import_module("toolgate_core.mutant_probes")
    began, probes.hits = time.monotonic(), set()
    try:
        return (yield)
    finally:
        row = json.dumps([item.nodeid, began, time.monotonic(), sorted(probes.hits)])
        with Path(probes.FOLDER, f"tests-{os.getpid()}").open("a") as file:
            file.write(f"{row}\n")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    path = os.environ.get(SETTING)
    if not path:
        return None
    for row in json.loads(Path(path).read_text()):
        mutant = Mutant(**row["mutant"])
        original = mutant.path.read_text()
        try:
            pid = os.fork()
            if pid == 0:
                _judge(session, mutant, row["tests"], Path(row["out"]))
            os.waitpid(pid, 0)
        finally:
            mutant.path.write_text(original)
    return True


def _judge(session, mutant, tests, out):
    """Run the tests with the fault, in their order, write the verdict and end the process."""
    began, verdict = time.monotonic(), dict[str, Any]()

    def hangs(*_):
        out.write_text(json.dumps({"killed_by": "a test that does not end"}))
        os._exit(0)

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(3 * SECONDS)
    try:
        known = {item.nodeid: item for item in session.items}
        items = [known[name] for name in tests if name in known]
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
    try:
        session._setupstate.teardown_exact(None)  # servers of the session
    finally:
        os._exit(0)


class _Failures:
    def __init__(self):
        self.ids = []

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.ids.append(report.nodeid)
