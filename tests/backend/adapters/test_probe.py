"""The probe of vLLM's private names at the start of a server."""

from __future__ import annotations

import importlib.metadata
import sys
from abc import ABC, abstractmethod
from functools import wraps
from types import ModuleType
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from toolgate_backend import launch, plugin
from toolgate_backend.adapters import probe
from toolgate_backend.adapters.probe import problems_of
from toolgate_backend.adapters.touches import COMMAND_LINE, SERVER, STRUCTURED_OUTPUT, Touch
from toolgate_backend.errors import AdapterMisfit

EVERY = (COMMAND_LINE, *SERVER, *STRUCTURED_OUTPUT)


class Host:
    declared: int

    async def method(self, data: object, *, stream: bool = False) -> None: ...

    async def anything(self, **arguments: object) -> None: ...

    def hooked(self, request: object) -> None: ...


class Interface(ABC):
    @abstractmethod
    def fill(self) -> None: ...

    @abstractmethod
    def reset(self) -> None: ...


def function(request: object) -> None: ...


@pytest.fixture
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("host_of_the_test")
    module.__dict__.update(Host=Host, Interface=Interface, function=function, setting=None)
    monkeypatch.setitem(sys.modules, "host_of_the_test", module)


def touch(target: str, *arguments: str, **others: Any) -> Touch:
    return Touch(f"host_of_the_test:{target}", "x", arguments, **others)


def test_the_installed_vllm_has_every_touch() -> None:
    assert [*problems_of(EVERY)] == []


def test_the_installed_vllm_is_among_the_tested_releases() -> None:
    assert probe._installed()[1] in SpecifierSet(probe.TESTED)


@pytest.mark.usefixtures("_host")
@pytest.mark.parametrize(
    "there",
    [
        touch("function"),
        touch("function", "request"),
        touch("setting"),
        touch("Host.declared"),
        touch("Host.method", "data", "stream"),
        touch("Host.anything", "whatever"),
        touch("Host.current", "request", older="host_of_the_test:Host.hooked"),
        touch("current", "request", older="host_of_the_test:function"),
        Touch("no_such_module_at_all:x", "x", older="host_of_the_test:function"),
        touch("Host.hooked", "self", "request", replaced=True),
        touch("Interface", abstract=("reset", "fill")),
        touch("Interface", abstract=("reset", "fill", "gone")),
    ],
    ids=str,
)
def test_a_touch_that_is_there_is_no_problem(there: Touch) -> None:
    assert [*problems_of((there,))] == []


@pytest.mark.usefixtures("_host")
@pytest.mark.parametrize(
    ("gone", "problem"),
    [
        (touch("gone"), "gone is missing"),
        (touch("Host.gone", "data"), "Host.gone is missing"),
        (touch("Host.gone", older="no_such_module_at_all:gone"), "Host.gone is missing"),
        (touch("Host.method", "data", "model"), "Host.method has no argument 'model'"),
        (
            touch("Host.method", "self", "data", replaced=True),
            "Host.method has other arguments than self, data",
        ),
        (
            touch("Host.hooked", "request", "self", replaced=True),
            "Host.hooked has other arguments than request, self",
        ),
        (touch("Interface", abstract=("reset",)), "Interface has a new abstract method 'fill'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_missing_is_reported_with_its_use(gone: Touch, problem: str) -> None:
    assert [*problems_of((gone,))] == [f"host_of_the_test.{problem} (used for: x)"]


def test_a_missing_module_is_reported() -> None:
    gone = Touch("vllm.no_such_module:name", "x")
    assert [*problems_of((gone,))] == ["vllm.no_such_module.name is missing (used for: x)"]


def test_a_module_that_fails_for_want_of_another_package_is_not_reported_as_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "host_that_fails.py").write_text("import no_such_module_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        [*problems_of((Touch("host_that_fails:name", "x"),))]


@pytest.mark.usefixtures("_host")
def test_a_method_that_we_wrap_still_counts_as_vllms(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Host.hooked

    @wraps(original)
    def ours(*arguments: Any) -> None: ...

    monkeypatch.setattr(Host, "hooked", ours)
    assert [*problems_of((touch("Host.hooked", "self", "request", replaced=True),))] == []


@pytest.mark.usefixtures("_host")
def test_the_error_names_the_version_every_problem_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    touches = (touch("function"), touch("gone"), Touch("host_of_the_test:lost", "drafts"))
    for name in ("SERVER", "STRUCTURED_OUTPUT"):
        monkeypatch.setattr(probe, name, touches)
    with pytest.raises(AdapterMisfit) as raised:
        probe.check_server()
    message = str(raised.value)
    distribution, installed = probe._installed()
    assert f"{distribution} {installed} is installed" in message
    assert "host_of_the_test.gone is missing (used for: x)" in message
    assert "host_of_the_test.lost is missing (used for: drafts)" in message
    assert "function" not in message
    assert message.endswith(f"pip install '{distribution}{probe.TESTED}'.")
    with pytest.raises(AdapterMisfit, match=r", or set TOOLGATE_ADAPTER=logits_processor\.$"):
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
def test_a_server_does_not_start_without_a_name_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By the plug-in, in whatever way vLLM was started."""
    monkeypatch.setenv("VLLM_PLUGINS", "toolgate")
    plugin.register()
    monkeypatch.delattr(name)
    with pytest.raises(AdapterMisfit, match=f"{name} is missing"):
        plugin.register()


def test_vllms_server_is_not_started_without_its_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("vllm.entrypoints.cli.main.main")
    monkeypatch.setattr(importlib.metadata, "version", importlib.metadata.version)
    monkeypatch.setattr(launch, "_config", lambda model: None)
    monkeypatch.setattr(launch.os, "environ", {})
    with pytest.raises(
        launch.LaunchRefused, match=r"vllm\.entrypoints\.cli\.main\.main is missing"
    ):
        launch.main(["model"])


def test_the_launcher_reports_it_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def misfit(arguments: list[str]) -> None:
        raise AdapterMisfit("vLLM lacks a name.")

    monkeypatch.setattr(launch.vllm_cli, "main", misfit)
    monkeypatch.setattr(launch, "_config", lambda model: None)
    monkeypatch.setattr(launch.os, "environ", {})
    with pytest.raises(launch.LaunchRefused, match=r"^vLLM lacks a name\.$"):
        launch.main(["model"])
