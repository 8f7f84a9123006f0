"""Run the tests of `make test`, or of `make test-fast`.

    python scripts/run_tests.py [--fast] [arguments of pytest]

The tests with vLLM take the longest: they share its servers, so that they run one after the other,
and they wait a lot. Those with gateway processes and those without servers use the rest of the
cores meanwhile, with lower priorities; their output is shown when they have ended. Last, alone, run
the tests that a busy machine can fail. With --fast, only tests without servers and without
exhaustive checks run.
The exit status is 0 if all tests passed, also if the arguments select no test of a group.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from tempfile import TemporaryFile

TWO_PROCESSES = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
FAST = (*TWO_PROCESSES, "-m", "not vllm and not litellm_process and not exhaustive and not slow")
VLLM = ("-m", "vllm and not slow")
BESIDE = (
    (5, (*TWO_PROCESSES, "-m", "litellm_process and not vllm and not timed and not slow")),
    # One process imports vLLM, and the other one LiteLLM.
    (10, ("-m", "backend and not vllm and not timed and not slow")),
    (10, ("-m", "not backend and not vllm and not litellm_process and not timed and not slow")),
)
"""With their niceness. Servers have it, too."""
TIMED = (*TWO_PROCESSES, "-m", "timed and not vllm and not slow")
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
        outputs = [files.enter_context(TemporaryFile()) for _ in BESIDE]
        beside = [
            subprocess.Popen(
                ["nice", "-n", str(niceness), *ONE_OF_SEVERAL, *group, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            for (niceness, group), output in zip(BESIDE, outputs, strict=True)
        ]
        try:
            statuses.append(run(VLLM, arguments))
        finally:  # an interrupt reaches the whole process group, and ends all of them
            for process, output in zip(beside, outputs, strict=True):
                statuses.append(process.wait())
                output.seek(0)
                print(output.read().decode(errors="replace"), flush=True)
    statuses.append(run(TIMED, arguments))
    return next((status for status in statuses if status not in (0, NO_TESTS)), 0)


def run(group: Sequence[str], arguments: Sequence[str]) -> int:
    return subprocess.run([*ONE_OF_SEVERAL, *group, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
