from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from toolgate_proxy.settings import Settings


@pytest.mark.parametrize("password", ["Sup3r/Secret", "Sup3r#Secret", "Sup3r?Secret"])
def test_an_url_that_is_none_is_not_quoted(password: str) -> None:
    with pytest.raises(ValidationError, match="percent-encoding") as refusal:
        Settings(redis_url=SecretStr(f"redis://:{password}@redis:6379/0"))
    assert "Sup3r" not in str(refusal.value)
    assert Settings(redis_url=SecretStr("redis://:Sup3r%2FSecret@redis:6379/0")).redis_url


def test_a_file_of_keys_needs_their_secret() -> None:
    with pytest.raises(ValidationError, match="TOOLGATE_KEY_SECRET, which is not set"):
        Settings(keys_file=Path("keys.yaml"))
    assert Settings(keys_file=Path("keys.yaml"), key_secret=SecretStr("x")).keys_file
