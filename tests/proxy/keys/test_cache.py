"""What a key is and how it is known, without any gateway."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from tests.support.virtual_keys import HASHER, key_of, stored
from toolgate_core.errors import InvalidKey, KeysUnavailable, TooManyWrongKeys
from toolgate_proxy.keys.cache import KeyCache
from toolgate_proxy.keys.failed_attempts import FailedAttempts
from toolgate_proxy.keys.file_store import BadKeyFile, entry, read_keys
from toolgate_proxy.keys.hashing import LONGEST, Hasher, hint, new_key
from toolgate_proxy.keys.key import Key, Terms

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 1000)


def cache_of(*keys: Key, clock: Clock | None = None) -> KeyCache:
    clock = clock or Clock()
    key_cache = KeyCache(HASHER, grace=300, wall_clock=clock.wall, clock=clock)
    key_cache.replace(keys)
    key_cache.refreshed()
    return key_cache


def test_keys_are_long_and_differ() -> None:
    made = {new_key() for _ in range(100)}
    assert len(made) == 100
    assert {len(key) for key in made} == {49}
    assert all(hint(key) == f"sk-tg-…{key[-4:]}" for key in made)


@given(st.text(), st.text())
def test_a_hash_depends_on_the_key_and_on_the_secret(a: str, b: str) -> None:
    assert (HASHER.hash(a) == HASHER.hash(b)) == (a == b)
    assert Hasher(SecretStr("another")).hash(a) != HASHER.hash(a)


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(1, 255))
def test_a_record_that_was_changed_or_moved_is_not_opened(
    record: bytes, at: int, change: int
) -> None:
    sealed = HASHER.seal("key_1", record)
    assert HASHER.open("key_1", sealed) == record
    assert HASHER.open("key_2", sealed) is None
    at %= len(sealed)
    broken = sealed[:at] + bytes([sealed[at] ^ change]) + sealed[at + 1 :]
    assert HASHER.open("key_1", broken) is None


def test_a_key_is_found_by_nothing_but_itself() -> None:
    sent = new_key()
    key = key_of(sent)
    key_cache = cache_of(key)
    assert key_cache.find(sent) == key
    for wrong in ("", sent[:-1], sent + "a", sent.upper(), key.id, key.secrets[0].hash, "é\ud800"):
        with pytest.raises(InvalidKey):
            key_cache.find(wrong)
    with pytest.raises(InvalidKey):
        key_cache.find("x" * (LONGEST + 1))


def test_what_ends_a_key() -> None:
    clock = Clock()
    expiring, blocked, revoked = new_key(), new_key(), new_key()
    key_cache = cache_of(
        key_of(expiring, expires=NOON + timedelta(seconds=10)),
        key_of(blocked, blocked=True),
        key_of(revoked).model_copy(update={"revoked": NOON}),
        clock=clock,
    )
    assert key_cache.find(expiring)
    clock.seconds += 10
    for sent, word in ((expiring, "expired"), (blocked, "blocked"), (revoked, "revoked")):
        with pytest.raises(InvalidKey, match=word):
            key_cache.find(sent)


def test_a_rotated_key_and_its_successor_overlap() -> None:
    clock, old, new, newest = Clock(), new_key(), new_key(), new_key()
    key = key_of(old).rotated(stored(new), timedelta(hours=1), NOON)
    key_cache = cache_of(key, clock=clock)
    assert key_cache.find(old).id == key_cache.find(new).id == key.id
    clock.seconds += 3600
    key_cache.refreshed()
    with pytest.raises(InvalidKey, match="rotated"):
        key_cache.find(old)
    assert key_cache.find(new)
    later = NOON + timedelta(hours=2)
    again = key.rotated(stored(newest), timedelta(hours=1), later)
    assert [secret.hint for secret in again.secrets] == [hint(newest), hint(new)]
    assert len(key.rotated(stored(newest), timedelta(0), NOON).secrets) == 1


def test_keys_are_believed_for_a_while_after_the_last_news() -> None:
    clock, sent, from_file = Clock(), new_key(), new_key()
    key_cache = cache_of(clock=clock)
    key_cache.replace([key_of(sent)], lasting=[key_of(from_file)])
    clock.seconds += 300
    assert key_cache.find(sent)
    clock.seconds += 1
    for unsure in (sent, new_key()):
        with pytest.raises(KeysUnavailable):
            key_cache.find(unsure)
    assert key_cache.find(from_file)
    key_cache.refreshed()
    assert key_cache.find(sent)


def test_guesses_are_counted_by_address() -> None:
    clock = Clock()
    failed_attempts = FailedAttempts(20, clock)
    for _ in range(20):
        failed_attempts.count("a")
    with pytest.raises(TooManyWrongKeys) as refused:
        failed_attempts.count("a")
    failed_attempts.count("b")
    assert refused.value.retry_after == 3
    clock.seconds += refused.value.retry_after
    failed_attempts.count("a")
    with pytest.raises(TooManyWrongKeys):
        failed_attempts.count("a")


@pytest.mark.parametrize(
    "wrong", [{"rpm": 0}, {"tpm": -1}, {"team": "a\nb"}, {"expires": "soon"}, {"limits": {"x": 1}}]
)
def test_terms_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        key_of(new_key(), **wrong) if "limits" not in wrong else Terms(**wrong)


def test_what_is_shown_of_a_key_is_not_its_hash() -> None:
    key = key_of(new_key(), "search", rpm=5, models=("small",))
    shown = str(key.shown(NOON))
    assert key.secrets[0].hash not in shown
    assert "'rpm': 5" in shown


def test_a_file_of_keys(tmp_path: Path) -> None:
    sent = new_key()
    key = key_of(sent, "search", team="web", models=("small", "large"), rpm=600, blocked=True)
    path = tmp_path / "keys.yaml"
    path.write_text("keys:\n" + entry(key) + entry(key_of(new_key(), "other", expires=NOON)))
    first, second = read_keys(path, HASHER)
    assert (first.alias, first.terms, first.secrets) == (key.alias, key.terms, key.secrets)
    assert second.terms.expires == NOON
    assert read_keys(path, HASHER)[0].id == first.id
    assert sent not in path.read_text()


HASH = "a" * 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keys:\n  - alias: a\n    hash: [\n", "line 4"),
        ("users: []\n", "line 1: 'users'"),
        ("- a\n", "line 1"),
        ("keys: 3\n", "line 1: `keys` must be a list"),
        ("keys:\n  - just text\n", "line 2"),
        (f"keys:\n  - alias: a\n    hash: {HASH}\n    rpn: 5\n", "line 2: 'rpn' is not known"),
        (f"keys:\n\n  - alias: a\n    hash: {HASH}\n    rpm: many\n", "line 3: `rpm`"),
        (f"keys:\n  - hash: {HASH}\n", "line 2: 'alias' is missing"),
        ("keys:\n  - alias: a\n    hash: abc\n", "line 2: `hash`"),
        (f"keys:\n  - alias: a\n    key: sk-{HASH}\n", "line 2: a key stands here in clear"),
        (
            f"keys:\n  - alias: a\n    hash: {HASH}\n  - alias: a\n    hash: {'b' * 64}\n",
            "line 4: the same key as in line 2",
        ),
        (f"keys:\n  - alias: a\n    hash: {HASH}\n    expires: later\n", "line 2: `expires`"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(text)
    with pytest.raises(BadKeyFile) as refused:
        read_keys(path, HASHER)
    assert said in str(refused.value)
    assert HASH not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadKeyFile, match="can't be read"):
        read_keys(tmp_path / "no.yaml", HASHER)
