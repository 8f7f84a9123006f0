"""The probe of LiteLLM's private names at the start of the gateway."""

from __future__ import annotations

import sys
from importlib.metadata import version
from types import ModuleType

import pytest
from packaging.specifiers import SpecifierSet

from toolgate_proxy.litellm_host import probe
from toolgate_proxy.litellm_host.names import either
from toolgate_proxy.litellm_host.probe import LiteLLMChanged, check_touches, problems_of
from toolgate_proxy.litellm_host.touches import TOUCHES, Touch


class Host:
    async def method(self, data: object, *, stream: bool = False) -> None: ...

    async def anything(self, **arguments: object) -> None: ...

    def renamed(self, first: object) -> None: ...


def function(request: object) -> None: ...


@pytest.fixture
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("host_of_the_test")
    module.__dict__.update(Host=Host, function=function, setting=None)
    monkeypatch.setitem(sys.modules, "host_of_the_test", module)


def test_the_installed_litellm_has_every_touch() -> None:
    check_touches()
    assert [*problems_of(TOUCHES)] == []


@pytest.mark.parametrize("touch", TOUCHES, ids=lambda touch: touch.target)
def test_a_touch_names_a_module_and_what_it_is_used_for(touch: Touch) -> None:
    module, separator, name = touch.target.partition(":")
    assert module.startswith("litellm")
    assert separator
    assert name
    assert touch.use


def test_touches_are_listed_once() -> None:
    assert len({touch.target for touch in TOUCHES}) == len(TOUCHES)


@pytest.mark.usefixtures("_host")
@pytest.mark.parametrize(
    "touch",
    [
        Touch("host_of_the_test:function", "x"),
        Touch("host_of_the_test:function", "x", ("request",)),
        Touch("host_of_the_test:setting", "x"),
        Touch("host_of_the_test:Host", "x"),
        Touch("host_of_the_test:Host.method", "x", ("data", "stream")),
        Touch("host_of_the_test:Host.anything", "x", ("whatever",)),
        Touch("host_of_the_test:Host.current", "x", ("first",), older="renamed"),
        Touch("host_of_the_test:Host.renamed", "x", ("first",), older="gone"),
        Touch("host_of_the_test:current", "x", ("request",), older="function"),
    ],
    ids=lambda touch: f"{touch.target} {' '.join(touch.arguments)}",
)
def test_a_touch_that_is_there_is_no_problem(touch: Touch) -> None:
    assert [*problems_of((touch,))] == []


@pytest.mark.usefixtures("_host")
@pytest.mark.parametrize(
    ("touch", "problem"),
    [
        (Touch("no_such_module_at_all:x", "a"), "no_such_module_at_all.x is missing (used for: a)"),
        (Touch("host_of_the_test:gone", "b"), "host_of_the_test.gone is missing (used for: b)"),
        (
            Touch("host_of_the_test:Host.gone", "c", ("data",)),
            "host_of_the_test.Host.gone is missing (used for: c)",
        ),
        (
            Touch("host_of_the_test:Host.gone", "d", older="also_gone"),
            "host_of_the_test.Host.gone is missing (used for: d)",
        ),
        (
            Touch("host_of_the_test:Host.method", "e", ("data", "model", "other")),
            "host_of_the_test.Host.method has no argument 'model' (used for: e)",
        ),
        (
            Touch("host_of_the_test:Host.current", "f", ("second",), older="renamed"),
            "host_of_the_test.Host.current has no argument 'second' (used for: f)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_missing_name_or_argument_is_a_problem_with_its_use(touch: Touch, problem: str) -> None:
    assert [*problems_of((touch,))] == [problem]


@pytest.mark.usefixtures("_host")
def test_the_error_names_the_version_every_problem_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = (Touch("host_of_the_test:gone", "streams"), Touch("host_of_the_test:lost", "hooks"))
    monkeypatch.setattr(probe, "TOUCHES", (Touch("host_of_the_test:function", "x"), *gone))
    with pytest.raises(LiteLLMChanged) as raised:
        check_touches()
    message = str(raised.value)
    assert f"LiteLLM {version('litellm')} is installed" in message
    assert "host_of_the_test.gone is missing (used for: streams)" in message
    assert "host_of_the_test.lost is missing (used for: hooks)" in message
    assert "function" not in message
    assert f"pip install 'litellm[proxy]{probe.TESTED}'" in message


def test_the_installed_litellm_is_among_the_tested_releases() -> None:
    assert version("litellm") in SpecifierSet(probe.TESTED)


def test_an_attribute_is_found_by_its_current_or_its_older_name() -> None:
    class Current:
        limit = 1

    class Older:
        _limit = 2

    class Both:
        limit, _limit = 3, 4

    class Neither:
        pass

    assert [either(held, "limit") for held in (Current(), Older(), Both())] == [1, 2, 3]
    with pytest.raises(AttributeError):
        either(Neither(), "limit")
