"""`toolgate keys` on keys in a real Redis."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.redis_server import RedisServer
from toolgate_proxy.cli.main import app


def run(redis: RedisServer, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    monkeypatch.setenv("TOOLGATE_REDIS_URL", redis.url)
    monkeypatch.setenv("TOOLGATE_KEY_SECRET", KEY_SECRET)
    result = CliRunner().invoke(app, ["keys", *arguments])
    return result.exit_code, result.output


def test_keys_commands_manage_keys_in_redis(
    redis_at_hand: RedisServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def toolgate(*arguments: str) -> str:
        status, said = run(redis_at_hand, monkeypatch, *arguments)
        assert status == 0, said
        return said

    options = ("--team", "web", "--model", "small", "--rpm", "60", "--expires", "30d", "--json")
    made = json.loads(toolgate("create", "search", *options))
    assert made["key"].startswith("sk-tg-")
    assert (made["team"], made["models"], made["rpm"]) == ("web", ["small"], 60)
    listed = toolgate("list")
    assert "search" in listed
    assert made["key"] not in listed
    assert made["keys"][0]["hint"] in listed
    toolgate("update", "search", "--rpm", "0", "--tpm", "900", "--block")
    shown = json.loads(toolgate("show", "search", "--json"))
    assert (shown["status"], shown["tpm"], shown["team"]) == ("blocked", 900, "web")
    assert shown["tokens_today"] == 0
    assert "rpm" not in shown
    assert shown["enforced_only"] is False
    toolgate("update", "search", "--unblock", "--enforced-only")
    assert json.loads(toolgate("show", "search", "--json"))["enforced_only"] is True
    toolgate("update", "search", "--any-model")
    assert json.loads(toolgate("show", "search", "--json"))["enforced_only"] is False
    rotated = json.loads(toolgate("rotate", "search", "--overlap", "1h", "--json"))
    assert rotated["key"] != made["key"]
    assert len(rotated["keys"]) == 2
    toolgate("revoke", made["id"])
    assert json.loads(toolgate("list", "--json")) == []
    assert "revoked" in toolgate("list", "--all")
    ours = tmp_path / "ours.yaml"
    ours.write_text("keys:\n  - alias: old\n    key: sk-an-old-key-of-ours-1234\n    rpm: 5\n")
    assert toolgate("import", str(ours)).startswith(
        "Imported: 1. Skipped, because they exist already: 0."
    )
    assert toolgate("import", str(ours)).startswith(
        "Imported: 0. Skipped, because they exist already: 1."
    )
    assert json.loads(toolgate("show", "old", "--json"))["keys"][0]["hint"] == "sk-…1234"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "nobody"), "no key with the alias or id 'nobody'"),
        (("create", "a\nb"), "alias"),
        (("create", "a", "--rpm", "-3"), "limits.rpm"),
        (("create", "a", "--expires", "soon"), "90d"),
        (("rotate", "a", "--overlap", "long"), "24h"),
    ],
)
def test_keys_commands_reject_invalid_arguments(
    redis_at_hand: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    status, output = run(redis_at_hand, monkeypatch, *arguments)
    assert status == 2
    assert said in output


def test_unreachable_redis_is_an_error_that_names_the_setting(
    redis_at_hand: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_at_hand.kill()
    status, output = run(redis_at_hand, monkeypatch, "list")
    assert status == 2
    assert "TOOLGATE_REDIS_URL" in output
    assert redis_at_hand.url not in output
