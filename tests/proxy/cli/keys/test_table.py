"""`toolgate keys list` as a table of 80 columns."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.cli.keys.table import of_keys, short
from toolgate_proxy.keys.key import new_key, now
from toolgate_proxy.keys.limit_kinds import KINDS
from toolgate_proxy.keys.redis_store import KeyUsage

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
