"""Run the tests of `make test`, in two parts of about the same length.

    python scripts/run_tests.py [arguments of pytest]

First the tests with gateway processes and those that need a free core, in two processes. Then the
tests with vLLM, which use one core for most of their time, and beside them, with a lower priority,
those without servers: the backend's, and the others. Their output is shown in the end. The exit
status is 0 if all tests passed, also if the arguments select no test of a group.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from tempfile import TemporaryFile

FREE_CORES = (
    *("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"),
    *("-m", "(litellm_process or timed) and not slow"),
)
VLLM = ("-m", "vllm and not slow")
# One process imports vLLM, and the other one LiteLLM.
NO_SERVERS = (
    ("-m", "backend and not vllm and not timed and not slow"),
    ("-m", "not backend and not vllm and not litellm_process and not timed and not slow"),
)
LOWER_PRIORITY = ("nice", "-n", "10")
# Without a cache: those of groups that run at the same time would overwrite each other.
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
NO_TESTS = 5
"""Exit status of pytest if no test was selected."""


def main(arguments: Sequence[str]) -> int:
    statuses = [subprocess.run([*PYTEST, *FREE_CORES, *arguments], check=False).returncode]
    with ExitStack() as files:
        outputs = [files.enter_context(TemporaryFile()) for _ in NO_SERVERS]
        beside = [
            subprocess.Popen(
                [*LOWER_PRIORITY, *PYTEST, *group, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            for group, output in zip(NO_SERVERS, outputs, strict=True)
        ]
        try:
            vllm = subprocess.run([*PYTEST, *VLLM, *arguments], check=False)
            statuses.append(vllm.returncode)
        finally:  # an interrupt reaches the whole process group, and ends all of them
            for process, output in zip(beside, outputs, strict=True):
                statuses.append(process.wait())
                output.seek(0)
                print(output.read().decode(errors="replace"), flush=True)
    return next((status for status in statuses if status not in (0, NO_TESTS)), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
