"""Whether the installed LiteLLM has every private name that this gateway uses."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from .touches import TOUCHES, Touch

TESTED = ">=1.105.7,<1.110"
"""LiteLLM releases of docs/compatibility.md."""


class LiteLLMChanged(Exception):
    """The message names LiteLLM's version, what is missing, and which versions work."""


def check_touches() -> None:
    """Raises LiteLLMChanged."""
    problems = [*problems_of(TOUCHES)]
    if problems:
        raise LiteLLMChanged(
            f"LiteLLM {version('litellm')} is installed, which this release of toolgate does not "
            f"work with: {'; '.join(problems)}. Install one that is tested: "
            f"pip install 'litellm[proxy]{TESTED}'."
        )


def problems_of(touches: tuple[Touch, ...]) -> Iterator[str]:
    for touch in touches:
        problem = _problem(touch)
        if problem is not None:
            yield f"{touch.target.replace(':', '.')} {problem} (used for: {touch.use})"


def _problem(touch: Touch) -> str | None:
    try:
        held = _found(touch.target)
    except (ImportError, AttributeError):
        if touch.older is None:
            return "is missing"
        try:
            held = _found(re.sub(r"[^.:]+$", touch.older, touch.target))
        except (ImportError, AttributeError):
            return "is missing"
    if not touch.arguments:
        return None
    accepted = inspect.signature(held).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in accepted.values()):
        return None
    lacking = [name for name in touch.arguments if name not in accepted]
    return f"has no argument {lacking[0]!r}" if lacking else None


def _found(target: str) -> Any:
    module, _, names = target.partition(":")
    held: Any = importlib.import_module(module)
    for name in names.split("."):
        held = getattr(held, name)
    return held
