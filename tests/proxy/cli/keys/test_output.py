"""What `toolgate keys` prints to standard output, and its warnings."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.cli.keys.stored_keys import of_keys, short
from toolgate_proxy.cli.main import app
from toolgate_proxy.keys.key import new_key, now
from toolgate_proxy.keys.limit_kinds import KINDS
from toolgate_proxy.keys.redis_store import KeyUsage

from ..conftest import ScriptedGateway


@pytest.fixture
def keys(
    redis_at_hand: RedisServer, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> Any:
    gateway.names = ("small", "large", "openai/*")
    monkeypatch.setenv("TOOLGATE_REDIS_URL", redis_at_hand.url)
    monkeypatch.setenv("TOOLGATE_KEY_SECRET", KEY_SECRET)
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", gateway.key)
    return lambda *arguments: CliRunner().invoke(app, ["keys", *arguments])


def test_a_new_key_is_alone_on_standard_output(keys: Any) -> None:
    for arguments in (("create", "a", "--rpm", "5"), ("rotate", "a")):
        result = keys(*arguments)
        assert result.exit_code == 0, result.output
        [secret] = result.stdout.splitlines()
        assert secret.startswith("sk-tg-")
        assert secret not in result.stderr
        assert "rpm" in result.stderr


def test_a_model_that_nobody_serves_is_a_warning(keys: Any, gateway: ScriptedGateway) -> None:
    url = gateway.url
    result = keys("create", "a", "--model", "smal", "--model", "openai/gpt", "--url", url)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr.startswith(
        f"Warning: the gateway at {url} serves no model 'smal'. Did you mean 'small'? "
        "It serves: small, large, openai/*.\n"
    )
    assert result.stderr.count("Warning") == 1
    result = keys("update", "a", "--model", "other", "--url", f"{url}/v1")
    assert (result.exit_code, result.stderr.count("serves no model 'other'")) == (0, 1)
    assert "Warning" not in keys("update", "a", "--model", "large", "--url", url).stderr
    assert all("include_model_access_groups=true" in path for path in gateway.paths)


def test_without_a_gateway_there_is_no_warning(
    keys: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-wrong")
    result = keys("create", "a", "--model", "x", "--url", gateway.url)
    assert (result.exit_code, "Warning" in result.stderr) == (0, False)


def test_a_key_that_was_never_used_has_no_last_use(keys: Any) -> None:
    keys("create", "a")
    [listed] = json.loads(keys("list", "--json").stdout)
    assert listed["tokens_today"] == 0
    assert "last_used" not in listed


LIMITS = {kind.name: 123_456 for kind in KINDS}


def test_a_full_table_fits_a_terminal() -> None:
    at = now()
    full = key_of(new_key(), "reports of the data team", **LIMITS)
    terms = {"team": "data", "expires": at + timedelta(days=90), "models": ("a" * 40, "small")}
    full = full.model_copy(update={"terms": full.terms.model_copy(update=terms)})
    empty = key_of(new_key(), "x")
    used = KeyUsage({"tokens_today": 1_234_567}, at - timedelta(hours=3))
    unused = KeyUsage({"tokens_today": 0})
    lines = of_keys([(full, used), (empty, unused)], at).splitlines()
    assert max(map(len, lines)) <= 80
    said = "\n".join(lines)
    for expected in ("1.23M", "3 h ago", "tokens/day 123456", "small", full.secrets[0].hint):
        assert expected in said
    last = next(line for line in lines if line.startswith(" x "))
    assert last.split() == ["x", *empty.secrets[0].hint.split(), "all", "-", "0", "-", "active"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (7, "7"),
        (600, "600"),
        (100_000, "100k"),
        (1_500, "1.5k"),
        (1_234, "1234"),
        (5_000_000, "5M"),
    ],
)
def test_limits_are_short_but_exact(number: int, text: str) -> None:
    assert short(number) == text
