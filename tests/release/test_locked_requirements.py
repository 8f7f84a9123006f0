"""requirements/locked is complete, hashed, and agrees with pyproject.toml and the constraints."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKED = ROOT / "requirements" / "locked"
PIN = re.compile(
    r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)[^\n]*\\\n"
    r"((?:    --hash=sha256:[0-9a-f]{64}.*\n)+)",
    re.M,
)
EXTRAS = {
    "proxy": ("proxy", "traces", "database", "callbacks"),
    "backend": ("backend",),
    "backend-cpu": ("backend-cpu",),
    "demo-cpu": ("proxy", "traces", "backend-cpu", "demo"),
}
ELSEWHERE = {
    *("async-timeout", "colorama", "httpx2-jsfetch", "pywin32", "tzdata", "win32-setctime"),
    "setuptools",
}
"""Packages for other platforms and versions of Python, and one that every environment has."""
CONSTRAINED = [name for name in EXTRAS if name != "backend"]


def pins(name: str) -> dict[str, str]:
    text = (LOCKED / f"{name}.txt").read_text()
    found = {canonicalize_name(package): version for package, version, _ in PIN.findall(text)}
    assert found
    return found


@pytest.mark.parametrize("name", [*EXTRAS, "build"])
def test_every_package_has_hashes_and_no_index_is_named(name: str) -> None:
    text = (LOCKED / f"{name}.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(lines) == len(PIN.findall(text))
    assert "://" not in text
    assert not re.search(r"^--", text, re.M)


@pytest.mark.parametrize("name", EXTRAS)
def test_locked_versions_meet_the_requirements_of_the_project(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS[name]:
        wanted += project["optional-dependencies"][extra]
    locked = pins(name)
    for requirement in map(Requirement, wanted):
        if requirement.name == "toolgate-demo-model":  # installed from its wheel
            continue
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), requirement


@pytest.mark.parametrize("name", CONSTRAINED)
def test_locked_versions_are_those_that_the_tests_run_with(name: str) -> None:
    constraints = dict(
        line.split("==") for line in (ROOT / "requirements" / "constraints.txt").read_text().split()
    )
    locked = pins(name)
    tested = {canonicalize_name(package): version for package, version in constraints.items()}
    shared = locked.keys() & tested.keys()
    assert {"litellm", "starlette", "pydantic"} & locked.keys() <= shared
    assert {each: locked[each] for each in shared} == {each: tested[each] for each in shared}
    untested = {each for each in locked if each not in tested and each != "torch"}
    assert untested <= ELSEWHERE
