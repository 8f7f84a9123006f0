"""TOOLGATE_ variables that have no effect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from toolgate_backend.settings import Settings as BackendSettings
from toolgate_proxy.cli.main import app
from toolgate_proxy.cli.settings_check import unknown_settings

ROOT = Path(__file__).parents[3]
MENTIONED = re.compile(r"\bTOOLGATE_[A-Z0-9_]*[A-Z0-9]\b")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("TOOLGATE_REDIS_URI", "TOOLGATE_REDIS_URL"),
        ("TOOLGATE_KEYS_SECRET", "TOOLGATE_KEY_SECRET"),
        ("TOOLGATE_MASTERKEY", "TOOLGATE_MASTER_KEY"),
        ("TOOLGATE_BACKEND_URLS", "TOOLGATE_BACKEND_URL"),
        ("TOOLGATE_BODY_TIMOUT", "TOOLGATE_BODY_TIMEOUT"),
    ],
)
def test_the_nearest_setting_is_suggested(given: str, meant: str) -> None:
    [warning] = unknown_settings({given: "secret", "PATH": "x"})
    assert warning == f"{given} is not a setting: it has no effect. Did you mean {meant}?"


def test_a_variable_that_is_like_no_setting_is_reported() -> None:
    [warning] = unknown_settings({"TOOLGATE_COLOUR": "red"})
    assert "docs/reference/settings.md" in warning


def test_variables_of_the_backend_and_of_the_documentation_are_known() -> None:
    names = {f"TOOLGATE_{name.upper()}" for name in BackendSettings.model_fields}
    for page in (ROOT / "docs").rglob("*.md"):
        names |= {*MENTIONED.findall(page.read_text())}
    assert unknown_settings(dict.fromkeys(names, "1")) == []


def test_variables_of_services_in_kubernetes_are_not_reported() -> None:
    names = ("GATEWAY_SERVICE_HOST", "GATEWAY_SERVICE_PORT_HTTP", "GATEWAY_PORT")
    names += ("GATEWAY_PORT_4000_TCP", "GATEWAY_PORT_4000_TCP_ADDR")
    assert unknown_settings({f"TOOLGATE_{name}": "10.0.0.1" for name in names}) == []


def test_the_gateway_names_it_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_REDIS_URI", "redis://secret")
    monkeypatch.delenv("TOOLGATE_MASTER_KEY", raising=False)
    result = CliRunner().invoke(app, ["proxy", "--model", "x"])
    assert result.exit_code == 2
    assert "Warning: TOOLGATE_REDIS_URI is not a setting" in result.output
    assert "secret" not in result.output
