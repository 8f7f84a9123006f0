"""The distributions: versions, bills of material, requirements, builds and the workflow."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from toolgate_core.version import VERSION
from toolgate_proxy.ops.extras import FOLDERS

ROOT = Path(__file__).parents[2]


def test_the_version_is_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text().count(VERSION) == 1
    assert version("toolgate-gateway") == VERSION, "run `make setup`"


@pytest.mark.parametrize(("extra", "folder"), FOLDERS.items())
def test_an_extra_accepts_our_distribution_of_this_revision(extra, folder):
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    wanted = {each.name: each for each in map(Requirement, project["optional-dependencies"][extra])}
    assert wanted[ours["name"]].specifier.contains(ours["version"])


def test_a_bill_has_our_wheel_and_every_locked_package(tmp_path):
    wheel = tmp_path / f"toolgate_gateway-{VERSION}-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    (tmp_path / "requirements-proxy.txt").write_text((LOCKED / "proxy.txt").read_text())
    first = _bill(tmp_path)
    bill = json.loads(first)
    assert bill["metadata"]["component"]["version"] == VERSION
    assert len(bill["metadata"]["component"]["hashes"][0]["content"]) == 64
    locked = re.findall(r"^([^\s\[=]+)\S*==([^\s;]+)", (LOCKED / "proxy.txt").read_text(), re.M)
    assert [(each["name"], each["version"]) for each in bill["components"]] == locked
    assert bill["dependencies"][0]["dependsOn"] == [each["purl"] for each in bill["components"]]
    assert _bill(tmp_path) == first


def _bill(folder):
    command = [sys.executable, ROOT / "scripts" / "sbom.py", folder, "--epoch", "1700000000"]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "toolgate-proxy.cdx.json").read_bytes()


@pytest.mark.slow
def test_two_builds_have_equal_hashes(tmp_path):
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


def pins(name):
    text = (LOCKED / f"{name}.txt").read_text()
    found = {canonicalize_name(package): version for package, version, _ in PIN.findall(text)}
    assert found
    return found


@pytest.mark.parametrize("name", [*EXTRAS, "build"])
def test_every_package_has_hashes_and_no_index_is_named(name):
    text = (LOCKED / f"{name}.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(lines) == len(PIN.findall(text))
    assert "://" not in text
    assert not re.search(r"^--", text, re.M)


@pytest.mark.parametrize("name", EXTRAS)
def test_locked_versions_meet_the_requirements_of_the_project(name):
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
def test_locked_versions_are_those_that_the_tests_run_with(name):
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


TEXT = (ROOT / ".github" / "workflows" / "release.yml").read_text()


@pytest.fixture(scope="module")
def jobs():
    workflow = yaml.safe_load(TEXT)
    assert workflow["permissions"] == {}
    found = workflow["jobs"]
    assert isinstance(found, dict)
    return found


def test_nothing_is_published_before_the_tests_and_the_trial(jobs):
    assert set(jobs["images"]["needs"]) == {"build", "test", "try"}
    assert "images" in jobs["publish"]["needs"]
    for name in ("images", "publish"):
        assert jobs[name]["environment"] == "release"


def test_each_job_has_only_its_permissions_and_a_time_limit(jobs):
    for name, job in jobs.items():
        assert job["timeout-minutes"] <= 120
        writes = {each for each, right in job["permissions"].items() if right == "write"}
        allowed = {"build": {"id-token", "attestations"}, "images": {"id-token", "attestations"}}
        assert writes <= allowed.get(name, {"id-token", "contents"} if name == "publish" else set())


def test_every_named_file_exists(jobs):
    for image in jobs["images"]["strategy"]["matrix"]["image"]:
        assert (ROOT / "docker" / f"{image}.Dockerfile").is_file()
    for script in re.findall(r"scripts/\w+\.py", TEXT):
        assert (ROOT / script).is_file()


@pytest.mark.parametrize("image", ["proxy", "backend", "backend-cpu"])
def test_images_install_locked_requirements_by_hash_and_do_not_run_as_root(image):
    text = (ROOT / "docker" / f"{image}.Dockerfile").read_text()
    assert f"requirements/locked/{image}.txt" in text
    assert text.count("pip install") == 3  # build packages, the locked ones, and ours
    assert text.count("--require-hashes") == 2
    assert "--no-deps /wheels/*.whl" in text
    assert re.findall(r"^USER (\d+)$", text, re.M) == ["10001"]
