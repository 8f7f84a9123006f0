"""Each feature can be deleted: its folder, and its lines in the two lists."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import toolgate_proxy
from tests.support.effort import NIGHTLY

PACKAGE = Path(toolgate_proxy.__file__).parent
ROOT = Path(__file__).parents[3]
FEATURES = sorted(path.parent.name for path in PACKAGE.glob("features/*/__init__.py"))
USUAL = ("mcp", "web")
"""Those that are deleted in each run: they have a part in LiteLLM's list, too."""
RESPONDING = "tests/proxy/server/test_own_route.py::test_a_log_event_has_the_response"
"""Whole and streamed, in each API."""


def without(path, name):
    """Delete a feature's lines in a list."""
    own = re.compile(rf"from \.{name}[. ]|    {name.upper()},")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not own.match(line)))


def copied_without(name, folder):
    copy = folder / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(copy / "features" / name)
    for listed in ("all", "litellm_all"):
        without(copy / f"features/{listed}.py", name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FEATURES if NIGHTLY else USUAL)
def test_without_a_feature_all_apis_respond(tmp_path, name):
    copied_without(name, tmp_path)
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def run(*command):
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=variables, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    listed = "from toolgate_proxy.features.all import FEATURES; print(len(FEATURES))"
    assert int(run("-c", listed)) == len(FEATURES) - 1
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", RESPONDING)
