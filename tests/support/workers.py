"""Plug-in of pytest: run the collected tests in forked workers, which take files from one queue.

    pytest -p tests.support.workers --workers 3

The modules are imported and the tests collected once, before the workers are forked. A worker takes
the next file when it is done with one. All tests with vLLM are one entry of the queue, because they
share their servers; they come first, because they take longest. A line every 20 seconds says what
runs, how many tests passed, and how long the others will take.
"""

import os
import signal
import sys
import time
import traceback
from collections import Counter, deque
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryFile

import psutil
import pytest

from tests.support.agents.client_packages import prepare

SECONDS_BETWEEN_LINES = 20
HELPERS = ("multiprocessing", "toolgate_core.killable")


def pytest_addoption(parser):
    parser.addoption("--workers", type=int, default=0, help="number of processes that run tests")


@pytest.hookimpl(wrapper=True)
def pytest_report_teststatus(config):
    category, letter, word = yield
    if not config.option.workers:
        return category, letter, word
    return category, "", "" if category == "passed" else word


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    options = session.config.option
    if not options.workers or options.collectonly:
        return None
    if session.testsfailed and not options.continue_on_collection_errors:
        raise session.Interrupted("Errors during collection.")
    _Queue(session).run(options.workers)
    return True


def units_of(items):
    """The tests of each file, in their order, and before them those that share vLLM's servers."""
    files = {"vllm": []}
    for item in items:
        key = "vllm" if item.get_closest_marker("vllm") else str(item.path)
        files.setdefault(key, []).append(item)
    return [each for each in files.values() if each]


class _Worker:
    """What the parent knows of a worker."""

    def __init__(self, run, number):
        self.pipe, other = Pipe()
        self.number = number
        self.test = ""
        """The test that runs."""
        self.pid = os.fork()
        if self.pid == 0:
            self.pipe.close()
            run(other, number)
        other.close()


class _Queue:
    def __init__(self, session):
        self._session, self._config = session, session.config
        self._units = units_of(session.items)
        self._waiting = deque(range(len(self._units)))
        self._began = self._told = time.monotonic()
        self._counts = Counter[str]()
        self._left = []

    def run(self, count):
        capture = self._config.pluginmanager.getplugin("capturemanager")
        assert capture is not None
        folder = self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self._folder = Path(folder)
        capture.suspend_global_capture(in_=True)
        workers = [_Worker(self._work, number) for number in range(count)]
        try:
            while workers:
                for pipe in wait([each.pipe for each in workers], timeout=1):
                    worker = next(each for each in workers if each.pipe is pipe)
                    if self._receive(worker):
                        continue
                    workers.remove(worker)
                    os.waitpid(worker.pid, 0)
                    if worker.test:  # it died; the rest of its file is lost, and said to be
                        self._lost(worker)
                        workers.append(_Worker(self._work, worker.number))
                self._tell(workers)
        finally:
            for worker in workers:
                os.kill(worker.pid, signal.SIGTERM)
            for worker in workers:
                os.waitpid(worker.pid, 0)
            capture.resume_global_capture()
        if self._left:
            self._print(f"Processes that tests left behind: {', '.join(self._left)}")

    # --- in the parent ---

    def _receive(self, worker):
        """Take a message. Return False if the worker has ended."""
        try:
            kind, value = worker.pipe.recv()
        except (EOFError, ConnectionError):
            return False
        if kind == "next":
            worker.pipe.send(self._waiting.popleft() if self._waiting else None)
        elif kind == "test":
            worker.test = value
        elif kind == "left":
            worker.test = ""
            self._left += value
        else:
            hook = self._config.hook
            report = hook.pytest_report_from_serializable(config=self._config, data=value)
            self._report(report)
        return True

    def _report(self, report):
        self._config.hook.pytest_runtest_logreport(report=report)
        if report.when == "call" or report.outcome != "passed":
            self._counts[report.outcome] += 1
        if report.failed:
            self._print(f"FAILED {report.nodeid} ({report.when})")
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)

    def _lost(self, worker):
        text = f"The process that ran it ended; the rest of its file did not run: {worker.test}"
        location = (worker.test, None, worker.test)
        self._report(pytest.TestReport(worker.test, location, {}, "failed", text, "call"))

    def _tell(self, workers):
        now = time.monotonic()
        if now - self._told < SECONDS_BETWEEN_LINES:
            return
        self._told, seconds = now, int(now - self._began)
        done, total = sum(self._counts.values()), len(self._session.items)
        left = seconds * (total - done) // max(done, 1) // 60
        running = ", ".join(each.test.partition("::")[0] for each in workers if each.test)
        counts = ", ".join(f"{number} {name}" for name, number in self._counts.items())
        self._print(
            f"[{seconds // 60}:{seconds % 60:02}] {100 * done // total} %: {counts}; "
            f"{running}; about {left + 1} min left"
        )

    def _print(self, text):
        print(text, file=sys.__stderr__, flush=True)

    # --- in a worker ---

    def _work(self, pipe, number):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        status = 1
        try:
            # Threads of the parent do not exist here.
            prepare({item.path.stem for item in self._session.items})
            self._run_units(pipe, number)
            status = 0
        except BaseException:  # noqa: BLE001 - what ends a worker is shown
            traceback.print_exc(file=sys.__stderr__)
        finally:
            self._session._setupstate.teardown_exact(None)  # servers of the session
            os._exit(status)

    def _run_units(self, pipe, number):
        plugins = self._config.pluginmanager
        capture = plugins.getplugin("capturemanager")
        assert capture is not None
        # The parent's files of captured output are shared with it otherwise. Libraries keep
        # `sys.stderr` as it was when they were imported, so it must not be closed.
        for each in (capture._global_capturing.out, capture._global_capturing.err):
            with TemporaryFile() as own:
                os.dup2(own.fileno(), each.tmpfile.fileno())
        capture.resume_global_capture()
        folder = self._folder / f"worker-{number}-{os.getpid()}"
        folder.mkdir(mode=0o700)
        self._config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
        plugins.unregister(name="terminalreporter")
        plugins.register(_Reports(self._config, pipe))

        def following():
            while True:
                pipe.send(("next", None))
                at = pipe.recv()
                if at is None:
                    return
                yield from self._units[at]

        items = following()
        item = next(items, None)
        while item is not None:
            pipe.send(("test", item.nodeid))
            after = next(items, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            item = after
        pipe.send(("left", [*_left()]))


def _left():
    """The processes that tests have left. Helpers of multiprocessing and the product's processes
    for regular expressions, which serve all requests, end with this process."""
    for each in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended since
            command = " ".join(each.cmdline())
            if command and not any(name in command for name in HELPERS):
                yield f"{each.pid} {command[:90]}"


class _Reports:
    def __init__(self, config, pipe):
        self._config, self._pipe = config, pipe

    def pytest_runtest_logreport(self, report):
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send(("report", data))
