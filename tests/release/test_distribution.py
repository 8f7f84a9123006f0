"""Versions, bills of material and the reproducible build of the distributions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from toolgate_core.version import VERSION
from toolgate_proxy.stack.extras import FOLDERS

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "locked" / "proxy.txt"


def test_the_version_is_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text().count(VERSION) == 1
    assert version("toolgate-gateway") == VERSION, "run `make setup`"


@pytest.mark.parametrize(("extra", "folder"), FOLDERS.items())
def test_an_extra_accepts_our_distribution_of_this_revision(extra: str, folder: str) -> None:
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    wanted = {each.name: each for each in map(Requirement, project["optional-dependencies"][extra])}
    assert wanted[ours["name"]].specifier.contains(ours["version"])


def test_a_bill_has_our_wheel_and_every_locked_package(tmp_path: Path) -> None:
    wheel = tmp_path / f"toolgate_gateway-{VERSION}-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    (tmp_path / "requirements-proxy.txt").write_text(LOCK.read_text())
    first = _bill(tmp_path)
    bill = json.loads(first)
    assert bill["metadata"]["component"]["version"] == VERSION
    assert len(bill["metadata"]["component"]["hashes"][0]["content"]) == 64
    locked = re.findall(r"^([^\s\[=]+)\S*==([^\s;]+)", LOCK.read_text(), re.M)
    assert [(each["name"], each["version"]) for each in bill["components"]] == locked
    assert bill["dependencies"][0]["dependsOn"] == [each["purl"] for each in bill["components"]]
    assert _bill(tmp_path) == first


def _bill(folder: Path) -> bytes:
    command = [sys.executable, ROOT / "scripts" / "sbom.py", folder, "--epoch", "1700000000"]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "toolgate-proxy.cdx.json").read_bytes()


@pytest.mark.slow
def test_two_builds_have_equal_hashes(tmp_path: Path) -> None:
    """Needs a package index for the build packages, and a repository."""
    out = tmp_path / "dist"
    command = [sys.executable, ROOT / "scripts" / "dist.py", "--out", out]
    subprocess.run(command, check=True, cwd=ROOT)
    built = {path.name for path in out.iterdir()}
    assert {
        f"toolgate_gateway-{VERSION}-py3-none-any.whl",
        f"toolgate_gateway-{VERSION}.tar.gz",
    } < built
    for name in ("toolgate_demo_model", "toolgate_verify"):
        assert any(each.startswith(f"{name}-") for each in built)
    assert "SHA256SUMS" in built
