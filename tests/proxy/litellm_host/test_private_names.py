"""The probe of LiteLLM's private names at the start of the gateway."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from packaging.specifiers import SpecifierSet

from toolgate_core.host_probe import PrivateName
from toolgate_proxy.litellm_host import private_names
from toolgate_proxy.litellm_host.private_names import (
    PRIVATE_NAMES,
    LiteLLMChanged,
    check_private_names,
    either,
)


def test_installed_litellm_has_every_private_name() -> None:
    check_private_names()


def test_private_names_are_listed_once() -> None:
    assert len({each.target for each in PRIVATE_NAMES}) == len(PRIVATE_NAMES)


def test_error_includes_the_version_all_problems_and_the_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = tuple(PrivateName(f"json:{name}", "streams") for name in ("loads", "gone", "lost"))
    monkeypatch.setattr(private_names, "PRIVATE_NAMES", names)
    with pytest.raises(LiteLLMChanged) as raised:
        check_private_names()
    message = str(raised.value)
    assert message.startswith(f"LiteLLM {version('litellm')} is not compatible")
    assert "json.gone is missing (used for: streams)" in message
    assert "json.lost is missing (used for: streams)" in message
    assert "loads" not in message
    assert f"pip install 'litellm[proxy]{private_names.TESTED}'" in message


def test_installed_litellm_is_a_tested_release() -> None:
    assert version("litellm") in SpecifierSet(private_names.TESTED)


def test_attribute_is_found_by_its_current_or_older_name() -> None:
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
