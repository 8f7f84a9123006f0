from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from toolgate_core.errors import SchemaTooComplex
from toolgate_core.wire import GrammarVerdict
from toolgate_proxy.settings import Settings

SETTINGS = Settings(grammar_ttl=1000, grammar_refusal_ttl=100, grammar_limit_ttl=10)


def test_a_refusal_for_cost_is_believed_for_less() -> None:
    ready = GrammarVerdict(key="k", status="ready")
    refused = GrammarVerdict(key="k", status="refused")
    too_dear = refused.model_copy(update={"code": SchemaTooComplex.code})
    assert SETTINGS.verdict_ttl(ready) == 1000
    assert SETTINGS.verdict_ttl(refused) == 100
    assert SETTINGS.verdict_ttl(too_dear) == 10


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
