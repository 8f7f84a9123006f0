"""The processes that are killed and stopped."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from tests.long.chaos.fleet import Fleet, parent

Find = Callable[[Fleet], Sequence[psutil.Process]]


@dataclass(frozen=True)
class Target:
    name: str
    find: Find
    on_demand: bool = False
    """They start when they are needed, and not all of them."""
    first_only: bool = False
    """The signal is sent to one of them."""


@dataclass(frozen=True)
class Fault:
    target: Target
    signal: signal.Signals

    @property
    def name(self) -> str:
        return f"{self.signal.name} of {self.target.name}"


def _valkey(fleet: Fleet) -> list[psutil.Process]:
    return _named(fleet.families([fleet.valkey])[1:], "valkey-server")


def _validation_workers(fleet: Fleet) -> list[psutil.Process]:
    return _named(fleet.families(fleet.gateways[:1]), "toolgate_proxy.validation.validator")


def _fork_servers(fleet: Fleet) -> list[psutil.Process]:
    found = _named(fleet.families(fleet.backends[:1]), "grammars.examination")
    return [each for each in found if not _is_forked(each, found)]


def _quarantine_workers(fleet: Fleet) -> list[psutil.Process]:
    found = _named(fleet.families(fleet.backends[:1]), "grammars.examination")
    return [each for each in found if _is_forked(each, found)]


def _gateway_workers(fleet: Fleet) -> list[psutil.Process]:
    return fleet.workers(fleet.gateways[0])


def _gateway(fleet: Fleet) -> list[psutil.Process]:
    return fleet.families(fleet.gateways[1:])[:1]


def _supervisor(fleet: Fleet) -> list[psutil.Process]:
    return fleet.families(fleet.gateways[:1])[:1]


def _api_process(fleet: Fleet) -> list[psutil.Process]:
    return fleet.families(fleet.backends[:1])[:1]


def _engine(fleet: Fleet) -> list[psutil.Process]:
    return _named(fleet.families(fleet.backends[1:]), "EngineCore")


def _named(processes: Sequence[psutil.Process], text: str) -> list[psutil.Process]:
    return [each for each in processes if text in title(each)]


def title(process: psutil.Process) -> str:
    """The name and the command of a process; empty if it has ended."""
    try:
        return " ".join([process.name(), *process.cmdline()])
    except psutil.NoSuchProcess:
        return ""


def _is_forked(process: psutil.Process, among: Sequence[psutil.Process]) -> bool:
    return parent(process) in [each.pid for each in among]


TARGETS = (
    Target("API process of a backend, of two", _api_process),
    Target("engine of a backend, of two", _engine),
    Target("gateway worker, of two", _gateway_workers, first_only=True),
    Target("gateway supervisor", _supervisor),
    Target("gateway, of two", _gateway),
    Target("Valkey", _valkey),
    Target("validation workers of a gateway", _validation_workers, on_demand=True),
    Target("quarantine workers of a backend", _quarantine_workers, on_demand=True),
    Target("quarantine process of a backend", _fork_servers),
)
FAULTS = [
    Fault(target, number) for target in TARGETS for number in (signal.SIGKILL, signal.SIGSTOP)
]
