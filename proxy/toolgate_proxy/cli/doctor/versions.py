"""Versions of Toolgate and of the packages of its extras, against the tested ranges."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec

from ...stack.extras import DISTRIBUTION
from .finding import Finding

EXTRAS = {
    "proxy": "gateway (extra [proxy])",
    "backend": "backend (extra [backend])",
    "backend-cpu": "backend (extra [backend-cpu])",
    "demo": "demo (extra [demo])",
    "verify": "verify (extra [verify])",
}
EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")
NAME = re.compile(r"[A-Za-z0-9._-]+")


def check() -> Iterator[Finding]:
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        yield Finding("toolgate", "runs from its sources; extras can't be checked", "note")
        return
    yield Finding("toolgate", f"{installed.version}, Python {platform.python_version()}")
    by_extra: dict[str, list[str]] = {}
    for requirement in installed.requires or ():
        found = EXTRA.search(requirement)
        by_extra.setdefault(found[1] if found else "", []).append(requirement)
    builds = ("backend", "backend-cpu")
    chosen = next((build for build in reversed(builds) if _has_host(by_extra.get(build, []))), None)
    for extra, topic in EXTRAS.items():
        if extra in builds and extra != (chosen or "backend"):
            continue  # the other build of vLLM
        yield from _of_extra(topic, by_extra.get(extra, []))


def _has_host(requirements: list[str]) -> bool:
    """Whether the build of vLLM in these requirements is installed."""
    hosts = [name for name in map(_name, requirements) if name.startswith("vllm")]
    return any(_version(name) for name in hosts)


def _of_extra(topic: str, requirements: list[str]) -> Iterator[Finding]:
    present, missing = [], []
    for requirement in requirements:
        name, ranges = _name(requirement), _ranges(requirement)
        found = _version(name)
        if found is None:
            missing.append(name)
        elif ranges and not _within(found, ranges):
            yield Finding(topic, f"{name} {found} is not in the tested range {ranges}", "problem")
        else:
            present.append(f"{name} {found}")
    if not present:
        yield Finding(topic, "not installed", "note")
    elif missing:
        yield Finding(topic, f"not complete: {', '.join(missing)} missing", "note")
    if present:
        yield Finding(topic, ", ".join(present))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _name(requirement: str) -> str:
    found = NAME.match(requirement)
    return found[0] if found else requirement


def _ranges(requirement: str) -> str:
    return re.sub(r"\[.*?\]", "", requirement.partition(";")[0])[len(_name(requirement)) :].strip()


def _within(found: str, ranges: str) -> bool:
    """True if the package that reads ranges is not installed."""
    if find_spec("packaging") is None:
        return True
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(ranges, prereleases=True).contains(found)
