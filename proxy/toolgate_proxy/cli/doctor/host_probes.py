"""Probes of the private names of LiteLLM and vLLM, each in a process of its own.

They import the hosts, which takes seconds and may fail in any way.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from ...stack.failure import cause, ending
from .finding import Finding

SECONDS = 300.0
LITELLM = """
from toolgate_proxy.litellm_host.probe import check_private_names
check_private_names()
"""
VLLM = """
from toolgate_backend.adapters import probe
probe.check_command_line()
probe.check_server()
probe.check_structured_output()
"""


@dataclass(frozen=True)
class Host:
    topic: str
    package: str
    program: str
    environment: Mapping[str, str] = field(default_factory=dict)


HOSTS = (
    # Without the variable, LiteLLM downloads its table of prices.
    Host("LiteLLM's names", "litellm", LITELLM, {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}),
    Host("vLLM's names", "vllm", VLLM, {"VLLM_PLUGINS": ""}),
)


@dataclass(frozen=True)
class Started:
    processes: tuple[tuple[Host, subprocess.Popen[str]], ...]

    def results(self) -> Iterator[Finding]:
        """Waits for the probes."""
        for host, process in self.processes:
            try:
                _, errors = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                yield Finding(host.topic, f"no result within {SECONDS:.0f} s", "problem")
                continue
            if process.returncode:
                reason = cause(errors) or f"the probe {ending(process.returncode)}"
                yield Finding(host.topic, reason, "problem")
            else:
                yield Finding(host.topic, "all present")


def start(hosts: tuple[Host, ...] = HOSTS) -> Started:
    """Starts the probes of the hosts that are installed."""
    return Started(
        tuple(
            (
                host,
                subprocess.Popen(
                    [sys.executable, "-c", host.program],
                    env={**os.environ, **host.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                ),
            )
            for host in hosts
            if find_spec(host.package) is not None
        )
    )
