"""The release workflow: its order, its permissions, and the files that it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / ".github" / "workflows" / "release.yml").read_text()


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    workflow = yaml.safe_load(TEXT)
    assert workflow["permissions"] == {}
    found = workflow["jobs"]
    assert isinstance(found, dict)
    return found


def test_nothing_is_published_before_the_tests_and_the_trial(jobs: dict[str, Any]) -> None:
    assert set(jobs["images"]["needs"]) == {"build", "test", "try"}
    assert "images" in jobs["publish"]["needs"]
    for name in ("images", "publish"):
        assert jobs[name]["environment"] == "release"


def test_each_job_has_only_its_permissions_and_a_time_limit(jobs: dict[str, Any]) -> None:
    for name, job in jobs.items():
        assert job["timeout-minutes"] <= 120
        writes = {each for each, right in job["permissions"].items() if right == "write"}
        allowed = {"build": {"id-token", "attestations"}, "images": {"id-token", "attestations"}}
        assert writes <= allowed.get(name, {"id-token", "contents"} if name == "publish" else set())


def test_every_named_file_exists(jobs: dict[str, Any]) -> None:
    for image in jobs["images"]["strategy"]["matrix"]["image"]:
        assert (ROOT / "docker" / f"{image}.Dockerfile").is_file()
    for script in re.findall(r"scripts/\w+\.py", TEXT):
        assert (ROOT / script).is_file()


@pytest.mark.parametrize("image", ["proxy", "backend", "backend-cpu"])
def test_images_install_locked_requirements_by_hash_and_do_not_run_as_root(image: str) -> None:
    text = (ROOT / "docker" / f"{image}.Dockerfile").read_text()
    assert f"requirements/locked/{image}.txt" in text
    assert text.count("pip install") == 3  # build packages, the locked ones, and ours
    assert text.count("--require-hashes") == 2
    assert "--no-deps /wheels/*.whl" in text
    assert re.findall(r"^USER (\d+)$", text, re.M) == ["10001"]
