"""The start-up probe of private names of hosts, imports, and the directory of a run."""

import gc
import sys
from abc import ABC, abstractmethod
from functools import wraps
from types import ModuleType
from typing import Any

import pytest

from toolgate_core.host_probe import (
    PrivateName,
    find,
    find_problems,
    importing,
    incompatibility_message,
)


class Host:
    declared: int

    async def method(self, data, *, stream=False): ...

    async def anything(self, **arguments): ...

    def hooked(self, request): ...


class Interface(ABC):
    @abstractmethod
    def fill(self) -> None: ...

    @abstractmethod
    def reset(self) -> None: ...


def function(request): ...


@pytest.fixture(autouse=True)
def _host(monkeypatch):
    module = ModuleType("host_of_the_test")
    module.__dict__.update(Host=Host, Interface=Interface, function=function, setting=None)
    monkeypatch.setitem(sys.modules, "host_of_the_test", module)


def private(target, *arguments, **others):
    return PrivateName(f"host_of_the_test:{target}", "x", arguments, **others)


@pytest.mark.parametrize(
    "name",
    [
        private("function"),
        private("function", "request"),
        private("setting"),
        private("Host"),
        private("Host.declared"),
        private("Host.method", "data", "stream"),
        private("Host.anything", "whatever"),
        private("Host.current", "request", older="host_of_the_test:Host.hooked"),
        private("Host.hooked", "request", older="host_of_the_test:Host.missing"),
        private("current", "request", older="host_of_the_test:function"),
        PrivateName("no_such_module_at_all:x", "x", older="host_of_the_test:function"),
        private("Host.hooked", "self", "request", replaced=True),
        private("Interface", abstract={"reset": ("self",), "fill": None}),
        private("Interface", abstract=dict.fromkeys(("reset", "fill", "removed"))),
    ],
    ids=str,
)
def test_a_present_name_reports_no_problem(name):
    assert [*find_problems((name,))] == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (private("missing"), "missing is missing"),
        (private("Host.missing", "data"), "Host.missing is missing"),
        (private("Host.missing", older="no_such_module_at_all:x"), "Host.missing is missing"),
        (private("Host.method", "data", "model", "x"), "Host.method has no argument 'model'"),
        (
            private("Host.current", "second", older="host_of_the_test:Host.hooked"),
            "Host.current has no argument 'second'",
        ),
        (
            private("Host.method", "self", "data", replaced=True),
            "Host.method has other arguments than self, data",
        ),
        (
            private("Host.hooked", "request", "self", replaced=True),
            "Host.hooked has other arguments than request, self",
        ),
        (
            private("Interface", abstract={"reset": None}),
            "Interface has a new abstract method 'fill'",
        ),
        (
            private("Interface", abstract={"reset": ("self", "at"), "fill": None}),
            "Interface.reset has other arguments than self, at",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_missing_name_or_argument_is_reported_with_its_use(name, problem):
    assert [*find_problems((name,))] == [f"host_of_the_test.{problem} (used for: x)"]


def test_a_missing_module_is_reported_with_its_use():
    missing = PrivateName("no_such_module_at_all:name", "x")
    assert [*find_problems((missing,))] == ["no_such_module_at_all.name is missing (used for: x)"]


def test_a_failing_import_inside_a_module_is_raised(monkeypatch, tmp_path):
    (tmp_path / "host_that_fails.py").write_text("import no_such_module_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        [*find_problems((PrivateName("host_that_fails:name", "x"),))]


def test_a_wrapped_method_has_the_signature_of_the_original(monkeypatch):
    @wraps(Host.hooked)
    def wrapper(*arguments: Any) -> None: ...

    monkeypatch.setattr(Host, "hooked", wrapper)
    assert [*find_problems((private("Host.hooked", "self", "request", replaced=True),))] == []


def test_find_returns_the_object_by_its_current_or_older_target():
    assert find(private("function")) is function
    assert find(private("current", older="host_of_the_test:function")) is function
    with pytest.raises(AttributeError):
        find(private("missing", older="host_of_the_test:missing_too"))


def test_the_message_lists_every_problem_and_the_version_to_install():
    message = incompatibility_message("host", "2.0", ["a is missing", "b is missing"], "host<2")
    assert message == (
        "host 2.0 is not compatible with this release of Toolgate: a is missing; b is missing. "
        "Install a tested version: pip install 'host<2'."
    )


@pytest.fixture(autouse=True)
def _collector():
    """Nothing is frozen when a test begins."""
    gc.enable()
    gc.unfreeze()
    yield
    gc.enable()


def test_objects_made_inside_are_excluded_from_collections():
    with importing():
        assert not gc.isenabled()
        made = [[] for _ in range(100_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= len(made)


def test_the_collector_is_enabled_after_an_error_unless_it_was_disabled():
    with pytest.raises(ImportError), importing():
        raise ImportError
    assert gc.isenabled()
    gc.disable()
    with importing():
        pass
    assert not gc.isenabled()
