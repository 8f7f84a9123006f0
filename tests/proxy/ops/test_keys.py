"""`toolgate keys` on keys in a real Redis: what it changes, and what it prints."""

import json
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from tests.support.servers.gateway_process import KEY_SECRET
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.keys.key import new_key, now
from toolgate_proxy.keys.limit_kinds import KINDS
from toolgate_proxy.keys.redis_store import KeyUsage
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.keys import of_keys, short


@pytest.fixture
def keys(redis_at_hand, monkeypatch):
    monkeypatch.setenv("TOOLGATE_REDIS_URL", redis_at_hand.url)
    monkeypatch.setenv("TOOLGATE_KEY_SECRET", KEY_SECRET)
    return lambda *arguments: CliRunner().invoke(app, ["keys", *arguments])


def test_keys_commands_manage_keys_in_redis(keys, tmp_path):
    def toolgate(*arguments):
        result = keys(*arguments)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout) if "--json" in arguments else result.output

    def shown():
        return toolgate("show", "search", "--json")

    options = ("--team", "web", "--model", "small", "--rpm", "60", "--expires", "30d", "--json")
    made = toolgate("create", "search", *options)
    assert made["key"].startswith("sk-tg-")
    assert (made["team"], made["models"], made["rpm"]) == ("web", ["small"], 60)
    listed = toolgate("list")
    assert "search" in listed
    assert made["key"] not in listed
    assert made["keys"][0]["hint"] in listed
    [unused] = toolgate("list", "--json")
    assert (unused["tokens_today"], "last_used" in unused) == (0, False)
    toolgate("update", "search", "--rpm", "0", "--tpm", "900", "--block")
    found = shown()
    assert (found["status"], found["tpm"], found["team"]) == ("blocked", 900, "web")
    assert ("rpm" in found, found["enforced_only"]) == (False, False)
    toolgate("update", "search", "--unblock", "--enforced-only")
    assert shown()["enforced_only"] is True
    toolgate("update", "search", "--any-model")
    assert shown()["enforced_only"] is False
    rotated = toolgate("rotate", "search", "--overlap", "1h", "--json")
    assert rotated["key"] != made["key"]
    assert len(rotated["keys"]) == 2
    toolgate("revoke", made["id"])
    assert toolgate("list", "--json") == []
    assert "revoked" in toolgate("list", "--all")
    ours = tmp_path / "ours.yaml"
    ours.write_text("keys:\n  - alias: old\n    key: sk-an-old-key-of-ours-1234\n    rpm: 5\n")
    for imported in (1, 0):
        said = f"Imported: {imported}. Skipped, because they exist already: {1 - imported}."
        assert toolgate("import", str(ours)).startswith(said)
    assert toolgate("show", "old", "--json")["keys"][0]["hint"] == "sk-…1234"


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
def test_keys_commands_reject_invalid_arguments(keys, arguments, said):
    result = keys(*arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_unreachable_redis_is_an_error_that_names_the_setting(keys, redis_at_hand):
    redis_at_hand.kill()
    result = keys("list")
    assert result.exit_code == 2
    assert "TOOLGATE_REDIS_URL" in result.output
    assert redis_at_hand.url not in result.output


def test_a_new_key_is_alone_on_standard_output(keys):
    for arguments in (("create", "a", "--rpm", "5"), ("rotate", "a")):
        result = keys(*arguments)
        assert result.exit_code == 0, result.output
        [secret] = result.stdout.splitlines()
        assert secret.startswith("sk-tg-")
        assert secret not in result.stderr
        assert "rpm" in result.stderr


def test_a_full_table_fits_a_terminal():
    at = now()
    limits = {kind.name: 123_456 for kind in KINDS}
    expires = at + timedelta(days=90)
    more = {"team": "data", "expires": expires, "models": ("a" * 40, "small")}
    full = key_of(new_key(), "reports of the data team", **limits, **more)
    empty = key_of(new_key(), "x")
    used = KeyUsage({"tokens_today": 1_234_567}, at - timedelta(hours=3))
    lines = of_keys([(full, used), (empty, KeyUsage({"tokens_today": 0}))], at).splitlines()
    assert max(map(len, lines)) <= 80
    said = "\n".join(lines)
    for expected in ("1.23M", "3 h ago", "tokens/day 123456", "small", full.secrets[0].hint):
        assert expected in said
    last = next(line for line in lines if line.startswith(" x "))
    assert last.split() == ["x", *empty.secrets[0].hint.split(), "all", "-", "0", "-", "active"]


def test_limits_are_short_but_exact():
    shown = {7: "7", 600: "600", 100_000: "100k", 1_500: "1.5k", 1_234: "1234", 5_000_000: "5M"}
    assert {number: short(number) for number in shown} == shown
