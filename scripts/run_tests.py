"""Run the tests of `make test`, in three groups at the same time.

    python scripts/run_tests.py [arguments of pytest]

Tests with vLLM and tests with gateway processes wait a lot, for processes to start and for limits
to end. The tests without servers use the cores meanwhile, with a lower priority. Their output is
shown as they run, that of the other groups in the end. The exit status is 0 if all tests passed,
also if the arguments select no test of a group.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

NO_SERVERS = (
    *("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"),
    *("-m", "not vllm and not litellm_process and not slow"),
)
SERVERS = (("-m", "vllm and not slow"), ("-m", "litellm_process and not slow"))
NICE = ("nice", "-n", "5")
NO_TESTS = 5
"""Exit status of pytest if no test was selected."""


def main(arguments: list[str]) -> int:
    # They would overwrite each other's cache of the last failures.
    pytest = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / str(at) for at in range(len(SERVERS))]
        beside = [
            start([*pytest, *options, *arguments], output)
            for options, output in zip(SERVERS, outputs, strict=True)
        ]
        statuses = []
        try:
            first = subprocess.run([*NICE, *pytest, *NO_SERVERS, *arguments], check=False)
            statuses.append(first.returncode)
        finally:  # an interrupt ends all of them: it reaches the whole process group
            for process, output in zip(beside, outputs, strict=True):
                statuses.append(process.wait())
                print(output.read_text(errors="replace"), flush=True)
    return next((status for status in statuses if status not in (0, NO_TESTS)), 0)


def start(command: list[str], output: Path) -> subprocess.Popen[bytes]:
    with output.open("wb") as sink:
        return subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
