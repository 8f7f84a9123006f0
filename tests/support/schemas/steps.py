"""A limit on the steps of a walk over a schema, and the functions that take a schema."""

import dataclasses
import importlib
import inspect
import pkgutil
import sys

MAX_STEPS = 6_000_000
"""Calls of functions. The most that a function needs for one of the hostile schemas is half of
that, and those that follow every reference need 2^40."""
TAKES_SCHEMA = frozenset({"schema", "parameters"})
"""Names of parameters."""


class TooManySteps(BaseException):
    """No handler of `Exception` catches it."""


def steps_of(work, limit=MAX_STEPS):
    """The number of calls of functions, native ones included, during `work`. Raises TooManySteps
    as soon as there are more than `limit`. Independent of the speed of the machine."""
    steps = 0

    def count(frame, event, arg):
        nonlocal steps
        if event in ("call", "c_call"):
            steps += 1
            if steps > limit:
                raise TooManySteps

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    if steps > limit:  # something caught it
        raise TooManySteps
    return steps


def functions_of_schemas(package):
    """`module:name` of each public function and class in a package that takes a schema."""
    root = importlib.import_module(package)
    modules = [package]
    if hasattr(root, "__path__"):
        modules += [each.name for each in pkgutil.walk_packages(root.__path__, f"{package}.")]
    for module in modules:
        for name, found in vars(importlib.import_module(module)).items():
            is_ours = getattr(found, "__module__", None) == module and not name.startswith("_")
            if is_ours and _parameters(found) & TAKES_SCHEMA:
                yield f"{module.removeprefix('toolgate_')}:{name}"


def _parameters(found):
    """The parameters of a function or a class that is no plain data."""
    is_data = dataclasses.is_dataclass(found) or hasattr(found, "model_fields")
    if is_data or not (inspect.isfunction(found) or inspect.isclass(found)):
        return set()
    try:
        return {*inspect.signature(found).parameters}
    except ValueError:  # an exception
        return set()
