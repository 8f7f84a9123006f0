"""Run the tests of `make test`: at the same time those that need vLLM and those that do not.

    python scripts/run_tests.py [arguments of pytest]

They wait a lot, for processes to start and for limits to end, so one process takes those with vLLM,
and three take the others, on two cores. The output of the tests with vLLM is printed in the end.
The exit status is 0 if all tests passed, also if the arguments select no test of one part.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

WITHOUT_VLLM = (
    *("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"),
    *("-m", "not vllm and not slow"),
)
# Both would write the cache of the last failures.
WITH_VLLM = ("-m", "vllm and not slow", "-p", "no:cacheprovider")
NO_TESTS = 5
"""Exit status of pytest if no test was selected."""


def main(arguments: list[str]) -> int:
    pytest = (sys.executable, "-m", "pytest")
    with tempfile.TemporaryFile() as output:
        beside = subprocess.Popen(
            [*pytest, *WITH_VLLM, *arguments], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            first = subprocess.run([*pytest, *WITHOUT_VLLM, *arguments], check=False).returncode
            second = beside.wait()
        finally:
            if beside.poll() is None:  # it has got the same SIGINT, and ends its servers
                beside.wait()
            output.seek(0)
            sys.stdout.flush()
            sys.stdout.buffer.write(output.read())
    return next((status for status in (first, second) if status not in (0, NO_TESTS)), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
