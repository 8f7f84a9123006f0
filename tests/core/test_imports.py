"""Imports between packages: core imports neither proxy nor backend, and these not each other."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.effort import rotating

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "vllm", "xgrammar", "llguidance"}


@pytest.mark.exhaustive
@rotating("module", ["toolgate_core.segmenter", "toolgate_proxy.provider"], one_in=2)
def test_importing_core_or_proxy_loads_no_engine(module):
    """Covers indirect imports: the gateway must run on a machine without torch."""
    script = f"import {module}, sys; print(sorted(set(sys.modules) & {HEAVY!r}))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.strip().splitlines()[-1] == "[]"


def test_the_command_line_is_importable_without_optional_packages():
    """Each part must run on a machine without the packages of the other part."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*extras["proxy"], *extras["backend"], *extras["backend-cpu"]]
    missing = {_module(each) for each in needed}
    assert {"litellm", "vllm", "torch"} <= missing
    script = f"import sys; sys.modules |= dict.fromkeys({missing!r}); import toolgate_proxy.ops.cli"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_verify_runs_with_its_own_packages():
    """`toolgate-verify` is for machines that have nothing else of this project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    verify = tomllib.loads((ROOT / "verify" / "pyproject.toml").read_text())["project"]
    extras = [each for name in project["optional-dependencies"] for each in _extra(name, project)]
    base = {_module(each) for each in verify["dependencies"]}
    missing = {_module(each) for each in [*project["dependencies"], *extras]} - base
    missing = (missing | {"toolgate_core", "toolgate_proxy"}) - {"toolgate_verify"}
    script = (
        f"import sys; sys.modules |= dict.fromkeys({missing!r}); "
        "import toolgate_verify.engine.session, toolgate_verify.report.record, "
        "toolgate_verify.report.html, toolgate_verify.report.junit, toolgate_verify.report.terminal"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def _extra(name, project):
    return project["optional-dependencies"][name]


def _module(requirement):
    return re.split(r"[\[<>=]", requirement)[0].replace("-", "_")
