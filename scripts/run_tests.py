"""Run the tests of `make test`, in two parts of about the same length.

    python scripts/run_tests.py [arguments of pytest]

First the tests with gateway processes and those that need a free core. Then the tests with vLLM,
which use one core for most of their time, and the tests without servers beside them, with a lower
priority: the output of these is shown in the end. The exit status is 0 if all tests passed, also if
the arguments select no test of a group.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

BY_FILE = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
FREE_CORES = (*BY_FILE, "-m", "(litellm_process or timed) and not slow")
VLLM = ("-m", "vllm and not slow")
NO_SERVERS = (*BY_FILE, "-m", "not vllm and not litellm_process and not timed and not slow")
LOWER_PRIORITY = ("nice", "-n", "10")
NO_TESTS = 5
"""Exit status of pytest if no test was selected."""


def main(arguments: list[str]) -> int:
    # Without a cache: those of groups that run at the same time would overwrite each other.
    pytest = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    statuses = [subprocess.run([*pytest, *FREE_CORES, *arguments], check=False).returncode]
    with tempfile.TemporaryFile() as output:
        command = [*LOWER_PRIORITY, *pytest, *NO_SERVERS, *arguments]
        beside = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            vllm = subprocess.run([*pytest, *VLLM, *arguments], check=False)
            statuses.append(vllm.returncode)
        finally:  # an interrupt reaches the whole process group, and ends both
            statuses.append(beside.wait())
            output.seek(0)
            print(output.read().decode(errors="replace"), flush=True)
    return next((status for status in statuses if status not in (0, NO_TESTS)), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
