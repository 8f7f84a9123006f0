"""Start-up of a host: its import in less time, the probe of its private names, the number of cores
that it may use, the variables for its worker processes, and the return of its memory. The host
is vLLM for the backend, LiteLLM for the gateway.

Both packages list the private names that they use as `PrivateName`s. The probe compares these with
the installed release and reports every missing name and changed signature, each with its use. This
module imports the host's modules by name only, when a probe runs.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any


@contextmanager
def importing() -> Iterator[None]:
    """Import large modules without garbage collections, which take a quarter of the time: each goes
    through a million objects, of which hardly any is garbage. Later collections exclude them, too.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


INHERITED = re.compile(
    r"(?:HOME|LANG|LOGNAME|PATH|TMPDIR|TZ|USER|VIRTUAL_ENV|(?:CUDA|LC|LD|OMP|PYTHON|TORCH)\w*)"
)


def interpreter_variables() -> dict[str, str]:
    """Return the host's variables that an interpreter and its libraries need. The others may be
    secrets, which processes that work on data of others must not have."""
    return {name: value for name, value in os.environ.items() if INHERITED.fullmatch(name)}


def return_freed() -> None:
    """Give freed memory back to the system, also that among objects that stay. Do nothing with
    other C libraries than glibc. Python's lock is free meanwhile."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(frozen=True)
class PrivateName:
    target: str
    """`module:name`, or `module:Class.name`."""
    use: str
    """What Toolgate uses the name for; part of the error message."""
    arguments: tuple[str, ...] = ()
    """Names of the arguments that are passed to it, or that it passes to Toolgate."""
    older: str | None = None
    """Its target in older releases."""
    replaced: bool = False
    """Toolgate replaces this method: it must have exactly `arguments`, in this order."""
    abstract: Mapping[str, tuple[str, ...] | None] | None = None
    """Toolgate implements this interface: it must have no other abstract methods, and these with
    exactly these arguments, unless None."""


def find(name: PrivateName) -> Any:
    """Return the object, by its current or its older target. Raise AttributeError if it is
    missing."""
    try:
        return _import_target(name.target)
    except AttributeError:
        if name.older is None:
            raise
        return _import_target(name.older)


def optional(owner: object, name: str, default: Any = None) -> Any:
    """Return an attribute that a host's object may lack: an object of one of several classes, or a
    release that has it not yet. Others are read by their names, so that a release without them is
    noticed."""
    return getattr(owner, name, default)


def find_problems(names: Iterable[PrivateName]) -> Iterator[str]:
    for name in names:
        problem = _problem(name)
        if problem is not None:
            yield f"{name.target.replace(':', '.')} {problem} (used for: {name.use})"
        yield from find_problems(
            PrivateName(f"{name.target}.{method}", name.use, arguments, replaced=True)
            for method, arguments in (name.abstract or {}).items()
            if arguments
        )


def incompatibility_message(
    host: str, installed: str, problems: Iterable[str], install: str, otherwise: str = ""
) -> str:
    """Return the error message for an incompatible release. `install` is the requirement to
    install, and `otherwise` an alternative to that."""
    return (
        f"{host} {installed} is not compatible with this release of Toolgate: "
        f"{'; '.join(problems)}. Install a tested version: pip install '{install}'{otherwise}."
    )


def _problem(name: PrivateName) -> str | None:
    try:
        target = find(name)
    except AttributeError:
        return "is missing"
    if name.abstract is not None:
        added = sorted(target.__abstractmethods__ - {*name.abstract})
        return f"has a new abstract method {added[0]!r}" if added else None
    if not name.arguments:
        return None
    accepted = inspect.signature(target).parameters
    if name.replaced:
        same = tuple(accepted) == name.arguments
        return None if same else f"has other arguments than {', '.join(name.arguments)}"
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in accepted.values()):
        return None
    missing = [argument for argument in name.arguments if argument not in accepted]
    return f"has no argument {missing[0]!r}" if missing else None


def _import_target(target: str) -> Any:
    """Raise AttributeError if the module or the name does not exist. For an attribute that a class
    only declares, the result is its annotation."""
    module, _, names = target.partition(":")
    try:
        value: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # the module exists, but one of its own imports does not
        raise AttributeError(module) from error
    for name in names.split("."):
        declared = getattr(value, "__annotations__", {}).get(name)
        value = getattr(value, name) if declared is None else getattr(value, name, declared)
    return value


def usable_cores() -> int:
    """Return the number of cores that this process may use. macOS reports the machine's cores
    only."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
