from __future__ import annotations

from dataclasses import fields

import pytest
from pydantic import ValidationError

from toolgate_backend.settings import Settings
from toolgate_core.schema.limits import SchemaLimits


def test_each_schema_limit_has_its_own_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {field.name: 40 + at for at, field in enumerate(fields(SchemaLimits))}
    for name, value in limits.items():
        monkeypatch.setenv(f"TOOLGATE_SCHEMA_MAX_{name.upper()}", str(value))
    assert Settings().schema_limits == SchemaLimits(**limits)


def test_empty_variables_keep_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_QUARANTINE_CPU_SECONDS", "0.5")
    monkeypatch.setenv("TOOLGATE_SCHEMA_MAX_DEPTH", "")
    assert Settings().quarantine_cpu_seconds == 0.5
    assert Settings().schema_max_depth == 64


def test_depth_beyond_pythons_recursion_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_SCHEMA_MAX_DEPTH", "5000")
    with pytest.raises(ValidationError):
        Settings()
