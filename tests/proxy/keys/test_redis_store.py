"""Keys in a real Redis: written once, known to every gateway, and to nobody who reads Redis."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from tests.support.gateway_process import KEY_SECRET
from tests.support.redis_server import RedisServer
from tests.support.virtual_keys import HASHER, key_of, put, store, stored
from toolgate_core.errors import InvalidKey, KeysUnavailable
from toolgate_proxy.cli.main import app
from toolgate_proxy.keys import sync
from toolgate_proxy.keys.cache import KeyCache
from toolgate_proxy.keys.file_store import entry
from toolgate_proxy.keys.hashing import Hasher, new_key
from toolgate_proxy.keys.key import now
from toolgate_proxy.keys.redis_store import CHANGES, RECORDS, VERSION, StoreConflict
from toolgate_proxy.keys.sync import KeySync
from toolgate_proxy.settings import Settings, settings
from toolgate_proxy.stack.processes import free_port


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  a task's state, not ours
            await asyncio.sleep(0.02)


def finds(key_cache: KeyCache, sent: str) -> bool:
    try:
        return bool(key_cache.find(sent))
    except (InvalidKey, KeysUnavailable):
        return False


def key_sync_of(redis: RedisServer | None, **more: Any) -> KeySync:
    url = SecretStr(redis.url) if redis else None
    settings = Settings(redis_url=url, key_secret=SecretStr(KEY_SECRET), key_poll=0.02, **more)
    return KeySync(KeyCache(HASHER, settings.key_grace), HASHER, settings)


@pytest.fixture
async def key_sync(redis_at_hand: RedisServer) -> AsyncIterator[KeySync]:
    made = key_sync_of(redis_at_hand)
    await made.started()
    yield made
    await made.aclose()


async def test_changes_are_felt(redis_at_hand: RedisServer, key_sync: KeySync) -> None:
    sent, new = new_key(), new_key()
    key = key_of(sent, "search")
    await put(redis_at_hand.url, key)
    await until(lambda: finds(key_sync.key_cache, sent))
    rotated = key.rotated(stored(new), timedelta(0), now())
    await put(redis_at_hand.url, rotated)
    await until(lambda: finds(key_sync.key_cache, new))
    assert not finds(key_sync.key_cache, sent)
    await put(redis_at_hand.url, rotated.model_copy(update={"revoked": now()}))
    await until(lambda: not finds(key_sync.key_cache, new))


async def test_one_that_starts_later_knows_all(redis_at_hand: RedisServer) -> None:
    sent = [new_key() for _ in range(50)]
    for each in sent:
        await put(redis_at_hand.url, key_of(each))
    late = key_sync_of(redis_at_hand)
    await late.started()
    assert all(finds(late.key_cache, each) for each in sent)
    await late.aclose()


async def test_only_the_first_wait_for_a_redis_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = new_key()
    file = tmp_path / "keys.yaml"
    file.write_text("keys:\n" + entry(key_of(sent, "search")))
    nowhere = Settings(
        redis_url=SecretStr(f"redis://127.0.0.1:{free_port()}"),
        key_secret=SecretStr(KEY_SECRET),
        keys_file=file,
    )
    made = KeySync(KeyCache(HASHER, nowhere.key_grace), HASHER, nowhere)
    monkeypatch.setattr(sync, "FIRST_LOOK", 0.2)
    await made.started()
    monkeypatch.setattr(sync, "FIRST_LOOK", 3600)
    async with asyncio.timeout(60):
        await made.started()
    assert finds(made.key_cache, sent)
    await made.aclose()


async def test_nothing_in_redis_leads_to_a_key(redis_at_hand: RedisServer) -> None:
    sent = new_key()
    await put(redis_at_hand.url, key_of(sent, "search"))
    held = b"".join(redis_at_hand.client.hvals(RECORDS))
    assert sent.encode() not in held
    assert sent[6:40].encode() not in held
    assert KEY_SECRET.encode() not in held
    assert HASHER.hash(sent).encode() in held


async def test_a_record_that_someone_wrote_into_redis_is_not_believed(
    redis_at_hand: RedisServer, key_sync: KeySync, caplog: pytest.LogCaptureFixture
) -> None:
    mine, forged = new_key(), new_key()
    key = key_of(mine, rpm=1)
    await put(redis_at_hand.url, key)
    await until(lambda: finds(key_sync.key_cache, mine))
    client = redis_at_hand.client
    held = client.hget(RECORDS, key.id)
    assert isinstance(held, bytes)
    without_limit = held.replace(b'"rpm":1', b'"rpm":9')
    assert without_limit != held
    client.hset(RECORDS, key.id, without_limit)
    other = key_of(forged)
    guessed = Hasher(SecretStr("guessed")).seal(other.id, other.model_dump_json().encode())
    client.hset(RECORDS, other.id, guessed)
    for key_id in (key.id, other.id):
        client.zadd("toolgate:{keys}:changes", {key_id: 100})
    await until(lambda: not finds(key_sync.key_cache, mine))
    assert not finds(key_sync.key_cache, forged)
    assert "left out" in caplog.text
    assert HASHER.hash(mine) not in caplog.text


async def test_writers_do_not_overwrite_each_other(redis_at_hand: RedisServer) -> None:
    key = key_of(new_key(), "search")
    one, other = store(redis_at_hand.url), store(redis_at_hand.url)
    await one.put(key)
    with pytest.raises(StoreConflict, match="alias"):
        await other.put(key_of(new_key(), "search"))
    mine, theirs = await one.find("search"), await other.find("search")
    assert mine == theirs == key
    await one.put(key.model_copy(update={"revoked": now()}))
    with pytest.raises(StoreConflict, match="someone else"):
        await other.put(key.rotated(stored(new_key()), timedelta(0), now()))
    await other.put(key_of(new_key(), "search"))  # a revoked key's alias is free
    await one.aclose()
    await other.aclose()


async def test_redis_away_and_back(redis_at_hand: RedisServer, key_sync: KeySync) -> None:
    sent, later = new_key(), new_key()
    await put(redis_at_hand.url, key_of(sent))
    await until(lambda: finds(key_sync.key_cache, sent))
    redis_at_hand.hang()
    try:
        await asyncio.sleep(0.5)
        assert finds(key_sync.key_cache, sent)
    finally:
        redis_at_hand.wake()
    await put(redis_at_hand.url, key_of(later))
    await until(lambda: finds(key_sync.key_cache, later))


async def test_a_redis_that_lost_its_last_writes(
    redis_at_hand: RedisServer, key_sync: KeySync
) -> None:
    """A replica that lagged, or a disk that was synchronised a second ago: versions come again."""
    sent, lost = new_key(), new_key()
    kept, gone = key_of(sent), key_of(lost)
    await put(redis_at_hand.url, kept)
    await put(redis_at_hand.url, gone)
    await until(lambda: finds(key_sync.key_cache, sent) and finds(key_sync.key_cache, lost))
    client = redis_at_hand.client
    client.hdel(RECORDS, gone.id)
    client.zrem(CHANGES, gone.id)
    client.decr(VERSION)
    await until(lambda: not finds(key_sync.key_cache, lost))
    assert finds(key_sync.key_cache, sent)
    await put(redis_at_hand.url, kept.model_copy(update={"revoked": now()}))
    await until(lambda: not finds(key_sync.key_cache, sent))


async def test_a_redis_that_lost_its_keys(redis_at_hand: RedisServer) -> None:
    """They are believed no longer than if it did not answer; new ones are known at once."""
    key_sync, sent, new = key_sync_of(redis_at_hand, key_grace=0.5), new_key(), new_key()
    await put(redis_at_hand.url, key_of(sent))
    await key_sync.started()
    assert finds(key_sync.key_cache, sent)
    redis_at_hand.restart()
    await until(lambda: not finds(key_sync.key_cache, sent))
    with pytest.raises(KeysUnavailable):
        key_sync.key_cache.find(sent)
    await put(redis_at_hand.url, key_of(new))
    await until(lambda: finds(key_sync.key_cache, new))
    with pytest.raises(InvalidKey):
        key_sync.key_cache.find(sent)
    await key_sync.aclose()


async def test_a_file_beside_no_redis(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sent, later, path = new_key(), new_key(), tmp_path / "keys.yaml"
    first = "keys:\n" + entry(key_of(sent, "search"))
    path.write_text(first)
    key_sync = key_sync_of(None, keys_file=path)
    await key_sync.started()
    assert finds(key_sync.key_cache, sent)
    path.write_text("keys: [\n")
    os.utime(path, (1, 1))
    await until(lambda: "line 2" in caplog.text)
    assert finds(key_sync.key_cache, sent), "a file that is being edited ends nobody's key"
    path.write_text(first + entry(key_of(later, "other")))
    await until(lambda: finds(key_sync.key_cache, later))
    path.write_text("keys:\n" + entry(key_of(later, "other")))
    await until(lambda: not finds(key_sync.key_cache, sent))
    await key_sync.aclose()


def run(redis: RedisServer, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    monkeypatch.setenv("TOOLGATE_REDIS_URL", redis.url)
    monkeypatch.setenv("TOOLGATE_KEY_SECRET", KEY_SECRET)
    settings.cache_clear()
    try:
        result = CliRunner().invoke(app, ["keys", *arguments])
    finally:
        settings.cache_clear()
    return result.exit_code, result.output


def test_the_command_line(
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
    toolgate("update", "search", "--unblock")
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
def test_what_the_command_line_refuses(
    redis_at_hand: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    status, output = run(redis_at_hand, monkeypatch, *arguments)
    assert status == 2
    assert said in output


def test_without_a_redis_the_command_line_says_so(
    redis_at_hand: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_at_hand.kill()
    status, output = run(redis_at_hand, monkeypatch, "list")
    assert status == 2
    assert "TOOLGATE_REDIS_URL" in output
    assert redis_at_hand.url not in output
