"""Each feature can be deleted: its folder, its lines in the list, and the module of `litellm_host`
that provides what is LiteLLM's."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import toolgate_proxy
from tests.support.effort import rotating

PACKAGE = Path(toolgate_proxy.__file__).parent
ROOT = Path(__file__).parents[3]
FEATURES = sorted(path.parent.name for path in PACKAGE.glob("features/*/__init__.py"))
PROVIDERS = {"mcp": "mcp", "web": "web_search"}
RESPONDING = "tests/proxy/server/test_own_route.py::test_a_log_event_has_the_response"
"""Whole and streamed, in each API."""


def without(path, name):
    """Delete a module's lines in a list, and its name in an import of several."""
    text = re.sub(rf"(?<=import ){name}, |, {name}(?=\n)", "", path.read_text())
    own = re.compile(rf"from \.{name}[. ]|    {name}[.,]|    {name.upper()},")
    path.write_text("".join(each for each in text.splitlines(keepends=True) if not own.match(each)))


def copied_without(name, folder):
    copy = folder / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(copy / "features" / name)
    without(copy / "features/all.py", name)
    if provider := PROVIDERS.get(name):
        (copy / "litellm_host" / f"{provider}.py").unlink()
        without(copy / "litellm_host/offered_tools.py", provider)


@pytest.mark.exhaustive
@rotating("name", FEATURES, one_in=5)
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
