from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration folder, in which stacks keep their master key."""
    folder = tmp_path.with_name(f"{tmp_path.name}-config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder
