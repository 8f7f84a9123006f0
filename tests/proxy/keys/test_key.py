"""The terms of a key, API keys, their hashes, and sealed records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from tests.support.servers.virtual_keys import HASHER, key_of
from toolgate_proxy.keys.key import Hasher, Terms, hint, new_key


@pytest.mark.parametrize(
    "wrong", [{"rpm": 0}, {"tpm": -1}, {"team": "a\nb"}, {"expires": "soon"}, {"limits": {"x": 1}}]
)
def test_invalid_terms_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        key_of(new_key(), **wrong) if "limits" not in wrong else Terms(**wrong)


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_new_keys_are_long_and_differ() -> None:
    made = {new_key() for _ in range(100)}
    assert len(made) == 100
    assert {len(key) for key in made} == {49}
    assert all(hint(key) == f"sk-tg-…{key[-4:]}" for key in made)


@given(st.text(), st.text())
def test_hash_depends_on_key_and_secret(a: str, b: str) -> None:
    assert (HASHER.hash(a) == HASHER.hash(b)) == (a == b)
    assert Hasher(SecretStr("another")).hash(a) != HASHER.hash(a)


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(1, 255))
def test_changed_or_moved_record_is_rejected(record: bytes, at: int, change: int) -> None:
    sealed = HASHER.seal("key_1", record)
    assert HASHER.open("key_1", sealed) == record
    assert HASHER.open("key_2", sealed) is None
    at %= len(sealed)
    broken = sealed[:at] + bytes([sealed[at] ^ change]) + sealed[at + 1 :]
    assert HASHER.open("key_1", broken) is None


def test_key_hint_is_not_its_hash() -> None:
    key = key_of(new_key(), "search", rpm=5, models=("small",))
    shown = str(key.shown(NOON))
    assert key.secrets[0].hash not in shown
    assert "'rpm': 5" in shown
