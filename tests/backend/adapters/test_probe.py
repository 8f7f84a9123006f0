"""The probe of vLLM's private names at the start of a server."""

from __future__ import annotations

import importlib.metadata

import pytest
from packaging.specifiers import SpecifierSet

from toolgate_backend import launch, plugin
from toolgate_backend.adapters import probe
from toolgate_backend.adapters.private_names import COMMAND_LINE, SERVER, STRUCTURED_OUTPUT
from toolgate_backend.errors import IncompatibleServer
from toolgate_core.host_probe import PrivateName, find_problems

EVERY = (COMMAND_LINE, *SERVER, *STRUCTURED_OUTPUT)


def test_the_installed_vllm_has_every_private_name() -> None:
    assert [*find_problems(EVERY)] == []


def test_the_installed_vllm_is_among_the_tested_releases() -> None:
    assert probe._installed()[1] in SpecifierSet(probe.TESTED)


def test_the_error_names_the_version_every_problem_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = tuple(PrivateName(f"json:{name}", "x") for name in ("loads", "gone", "lost"))
    for name in ("SERVER", "STRUCTURED_OUTPUT"):
        monkeypatch.setattr(probe, name, names)
    with pytest.raises(IncompatibleServer) as raised:
        probe.check_server()
    message = str(raised.value)
    distribution, installed = probe._installed()
    assert message.startswith(f"{distribution} {installed} is not compatible")
    assert "json.gone is missing (used for: x)" in message
    assert "json.lost is missing (used for: x)" in message
    assert "loads" not in message
    assert message.endswith(f"pip install '{distribution}{probe.TESTED}'.")
    with pytest.raises(IncompatibleServer, match=r", or set TOOLGATE_ADAPTER=logits_processor\.$"):
        probe.check_structured_output()


@pytest.mark.parametrize(
    "name",
    [
        "vllm.v1.worker.worker_base.WorkerBase",
        "vllm.v1.engine.core.EngineCore",
        "vllm.renderers.base.BaseRenderer.render_chat_async",
        "vllm.entrypoints.serve.utils.api_utils.with_cancellation",
    ],
)
def test_a_missing_private_name_stops_the_server(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The plug-in checks the names, however vLLM was started."""
    monkeypatch.setenv("VLLM_PLUGINS", "toolgate")
    plugin.register()
    monkeypatch.delattr(name)
    with pytest.raises(IncompatibleServer, match=f"{name} is missing"):
        plugin.register()


def test_launch_fails_without_the_vllm_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("vllm.entrypoints.cli.main.main")
    monkeypatch.setattr(importlib.metadata, "version", importlib.metadata.version)
    monkeypatch.setattr(launch, "_text_config", lambda model: None)
    monkeypatch.setattr(launch.os, "environ", {})
    with pytest.raises(launch.LaunchError, match=r"vllm\.entrypoints\.cli\.main\.main is missing"):
        launch.main(["model"])


def test_the_launcher_reports_an_incompatible_server_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def misfit(arguments: list[str]) -> None:
        raise IncompatibleServer("vLLM lacks a name.")

    monkeypatch.setattr(launch.vllm_cli, "main", misfit)
    monkeypatch.setattr(launch, "_text_config", lambda model: None)
    monkeypatch.setattr(launch.os, "environ", {})
    with pytest.raises(launch.LaunchError, match=r"^vLLM lacks a name\.$"):
        launch.main(["model"])
