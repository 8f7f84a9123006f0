"""Run the tests of `make test`, or of `make test-fast`.

    python scripts/run_tests.py [--fast] [arguments of pytest]

First the tests with gateway processes and those that need a free core, then those with vLLM. They
wait a lot, for processes and for each other. The tests without servers use the rest of the cores
meanwhile, with a lower priority; their output is shown in the end. With --fast, only tests without
servers and without exhaustive checks run. The exit status is 0 if all tests passed, also if the
arguments select no test of a group.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from tempfile import TemporaryFile

TWO_PROCESSES = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
FAST = (*TWO_PROCESSES, "-m", "not vllm and not litellm_process and not exhaustive and not slow")
SERVERS = (
    # A test of vLLM may be timed, too. It would start a second set of servers here.
    (*TWO_PROCESSES, "-m", "(litellm_process or timed) and not vllm and not slow"),
    ("-m", "vllm and not slow"),
)
# One process imports vLLM, and the other one LiteLLM.
NO_SERVERS = (
    ("-m", "backend and not vllm and not timed and not slow"),
    ("-m", "not backend and not vllm and not litellm_process and not timed and not slow"),
)
LOWER_PRIORITY = ("nice", "-n", "10")
PYTEST = (sys.executable, "-m", "pytest")
# Without a cache: those of groups that run at the same time would overwrite each other.
ONE_OF_SEVERAL = (*PYTEST, "-p", "no:cacheprovider")
NO_TESTS = 5
"""Exit status of pytest if no test was selected."""


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--fast"]:
        return subprocess.run([*PYTEST, *FAST, *arguments[1:]], check=False).returncode
    statuses: list[int] = []
    with ExitStack() as files:
        outputs = [files.enter_context(TemporaryFile()) for _ in NO_SERVERS]
        beside = [
            subprocess.Popen(
                [*LOWER_PRIORITY, *ONE_OF_SEVERAL, *group, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            for group, output in zip(NO_SERVERS, outputs, strict=True)
        ]
        try:
            for group in SERVERS:
                done = subprocess.run([*ONE_OF_SEVERAL, *group, *arguments], check=False)
                statuses.append(done.returncode)
        finally:  # an interrupt reaches the whole process group, and ends all of them
            for process, output in zip(beside, outputs, strict=True):
                statuses.append(process.wait())
                output.seek(0)
                print(output.read().decode(errors="replace"), flush=True)
    return next((status for status in statuses if status not in (0, NO_TESTS)), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
