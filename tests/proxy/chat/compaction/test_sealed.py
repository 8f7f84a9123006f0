"""Compacted conversations that clients keep."""

from __future__ import annotations

import base64

import pytest

from toolgate_proxy.chat.compaction.compacted import Compacted
from toolgate_proxy.chat.compaction.sealed import opened, sealed
from toolgate_proxy.sealing import OwnerSeal, Sealer

SEALER = Sealer(b"secret")
SEAL = OwnerSeal(SEALER, "team a")
MADE = Compacted("Half a pair: \ud83d.", ({"role": "user", "content": "é"},), keeps_users=True)


def test_the_owner_opens_what_was_sealed() -> None:
    text = sealed(MADE, SEAL)
    assert opened(text, SEAL) == MADE
    assert b"Half" not in base64.b64decode(text)


@pytest.mark.parametrize(
    "seal", [None, OwnerSeal(SEALER, "team b"), OwnerSeal(Sealer(b"other"), "team a")]
)
def test_nobody_else_opens_it(seal: OwnerSeal | None) -> None:
    assert opened(sealed(MADE, SEAL), seal) is None


@pytest.mark.parametrize("text", [None, 5, "", "no base64", "aGVsbG8="])
def test_other_values_do_not_open(text: object) -> None:
    assert opened(text, SEAL) is None


def test_sealed_reasoning_is_no_compacted_conversation() -> None:
    assert opened(SEAL.seal_text("{}", purpose="thinking"), SEAL) is None
