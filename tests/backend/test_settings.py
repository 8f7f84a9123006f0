from __future__ import annotations

import pytest
from pydantic import ValidationError

from toolgate_backend.settings import Settings
from toolgate_core.schema.limits import SchemaLimits


def test_the_defaults_are_the_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().schema_limits == SchemaLimits()


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_QUARANTINE_CPU_SECONDS", "0.5")
    monkeypatch.setenv("TOOLGATE_SCHEMA_MAX_DEPTH", "")
    assert Settings().quarantine_cpu_seconds == 0.5
    assert Settings().schema_max_depth == 64


def test_a_depth_that_python_could_not_follow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_SCHEMA_MAX_DEPTH", "5000")
    with pytest.raises(ValidationError):
        Settings()
