"""A gateway starts and answers without the packages in requirements/proxy-unused.txt.

Every gateway of the tests runs without them (tests/support/servers/unused_packages.py). This checks
that it does.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import httpx
import pytest

from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.unused_packages import LIST, Missing, modules, packages

pytestmark = pytest.mark.litellm_process


def _require_missing() -> None:
    """Ends the process of a gateway that could import one of the packages."""
    for name in {name for package in packages() for name in modules(package)}:
        try:
            import_module(name)
        except ModuleNotFoundError:
            continue
        sys.exit(f"{name} can be imported")


def test_the_gateway_answers_without_packages_that_it_does_not_use(tmp_path: Path) -> None:
    arguments = ["--model", "m"]
    with serving(
        arguments, "http://127.0.0.1:9", tmp_path / "log", before=_require_missing
    ) as gateway:
        headers = {"authorization": f"Bearer {MASTER_KEY}"}
        answer = httpx.get(f"{gateway.url}/v1/models", headers=headers, timeout=60)
    assert [model["id"] for model in answer.json()["data"]] == ["m"]


def test_the_list_has_packages_that_the_extra_installs() -> None:
    locked = (LIST.parent / "locked" / "proxy.txt").read_text()
    assert packages()
    assert not [name for name in packages() if f"\n{name}==" not in locked]


def test_a_module_of_a_missing_package_can_not_be_found() -> None:
    missing = Missing({"polars"})
    with pytest.raises(ModuleNotFoundError):
        missing.find_spec("polars.io")
    assert missing.find_spec("polars_other") is None
