from __future__ import annotations

import pytest

from toolgate_backend.settings import Settings


def test_empty_variables_keep_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGATE_QUARANTINE_MEMORY_MB", "500")
    monkeypatch.setenv("TOOLGATE_MAX_REQUESTS", "")
    assert Settings().quarantine_memory_mb == 500
    assert Settings().max_requests == 2048
