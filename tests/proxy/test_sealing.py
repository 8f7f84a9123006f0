"""Sealed data opens only as it was sealed; kept reasoning: its stores (Redis and the memory of the
process), and the names of turns; secrets in settings."""

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from toolgate_proxy.kept_reasoning import TurnNames
from toolgate_proxy.kept_values import MemoryValues, RedisValues
from toolgate_proxy.sealing import OwnerSeal, SealBroken, Sealer
from toolgate_proxy.settings import Settings

DATA = b"the reasoning of a model"
SEALED = Sealer(b"secret").seal(DATA, purpose="reasoning", owner="team-a")


def opened(data, secret=b"secret", purpose="reasoning", owner="team-a"):
    return Sealer(secret).open(data, purpose=purpose, owner=owner)


def test_sealed_data_opens_for_its_secret_purpose_and_owner_alone():
    assert opened(SEALED) == DATA
    assert DATA not in SEALED
    assert Sealer(b"secret").seal(DATA, purpose="reasoning", owner="team-a") != SEALED
    for other in ({"secret": b"another"}, {"purpose": "response"}, {"owner": "team-b"}):
        with pytest.raises(SealBroken):
            opened(SEALED, **other)


def test_every_changed_byte_and_cut_is_noticed():
    changed = [
        SEALED[:at] + bytes([SEALED[at] ^ 1]) + SEALED[at + 1 :] for at in range(len(SEALED))
    ]
    for broken in (*changed, *(SEALED[:length] for length in range(30))):
        with pytest.raises(SealBroken):
            opened(broken)


def test_a_sealed_text_opens_for_its_owner_alone():
    mine, theirs = (OwnerSeal(Sealer(b"secret"), owner) for owner in ("team-a", "team-b"))
    text = mine.seal_text("naïve 🙂", purpose="reasoning")
    assert mine.open_text(text, purpose="reasoning") == "naïve 🙂"
    assert theirs.open_text(text, purpose="reasoning") is None
    assert mine.open_text("no base64!", purpose="reasoning") is None


def in_redis(url):
    return RedisValues(Settings(redis_url=SecretStr(url), redis_timeout=2))


@pytest.mark.parametrize("kind", ["redis", "memory"])
async def test_values_are_found_by_name_and_replaced(kind, redis_at_hand):
    store = MemoryValues() if kind == "memory" else in_redis(redis_at_hand.url)
    await store.put({"a": b"1", "b": b"2"})
    assert await store.get(["b", "none", "a"]) == [b"2", None, b"1"]
    await store.put({"a": b"2"})
    assert await store.get(["a"]) == [b"2"]
    if kind == "redis":
        assert 0 < redis_at_hand.client.pttl("toolgate:kept:a") <= 86_400_000
    await store.aclose()


async def test_values_in_memory_expire_and_the_least_recently_used_are_dropped():
    store = MemoryValues(most=3)
    await store.put({"a": b"1", "b": b"2", "c": b"3"})
    await store.get(["a"])
    await store.put({"d": b"4"})
    assert await store.get(["a", "b", "c", "d"]) == [b"1", None, b"3", b"4"]
    store._life = 0.01
    await store.put({"a": b"1"})
    await asyncio.sleep(0.02)
    assert await store.get(["a"]) == [None]


async def test_without_redis_nothing_is_found_and_nothing_fails():
    store = in_redis("redis://127.0.0.1:9")
    await store.put({"a": b"1"})
    assert await store.get(["a", "b"]) == [None, None]
    await store.aclose()


RANDOM, COUNTED = "call_abcdefghijklmnopqrstuvwx", "functions.look:0"
ASKED = [{"role": "user", "content": "Look at a."}]


def name(before, call_id, model="m"):
    return TurnNames(model, before).name(len(before), call_id, "look")


def test_the_gateways_ids_need_no_conversation():
    """Clients may shorten what was before. The id of the Messages API is the same."""
    mine = name([], RANDOM)
    assert name(ASKED, RANDOM) == name([], RANDOM.replace("call_", "toolu_")) == mine
    assert mine not in (name([], RANDOM[:-1] + "y"), name([], RANDOM, model="other"))


def test_counted_ids_are_told_apart_by_the_conversation_without_its_reasoning():
    """Which is what clients drop."""
    mine = name(ASKED, COUNTED)
    assert name([dict(ASKED[0])], COUNTED) == mine
    other = [{"role": "user", "content": "Look at b."}]
    assert mine not in (name(other, COUNTED), name(ASKED, "functions.look:1"))
    call = {"id": COUNTED, "function": {"name": "look", "arguments": "{}"}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    thought = {**turn, "reasoning_content": "Hm"}
    assert name([*ASKED, turn], "functions.look:1") == name([*ASKED, thought], "functions.look:1")
    messages = [{"role": role, "content": f"{at}"} for at, role in enumerate(["user", "tool"] * 3)]
    turns = TurnNames("m", messages)
    for at in (1, 1, 3, 6):  # the same among the turns after it
        assert turns.name(at, COUNTED, "look") == name(messages[:at], COUNTED)


@pytest.mark.parametrize("password", ["Sup3r/Secret", "Sup3r#Secret", "Sup3r?Secret"])
def test_an_url_that_is_none_is_not_quoted(password):
    with pytest.raises(ValidationError, match="percent-encoding") as refusal:
        Settings(redis_url=SecretStr(f"redis://:{password}@redis:6379/0"))
    assert "Sup3r" not in str(refusal.value)
    assert Settings(redis_url=SecretStr("redis://:Sup3r%2FSecret@redis:6379/0")).redis_url


def test_a_file_of_keys_needs_their_secret():
    with pytest.raises(ValidationError, match="TOOLGATE_KEY_SECRET, which is not set"):
        Settings(keys_file=Path("keys.yaml"))
    assert Settings(keys_file=Path("keys.yaml"), key_secret=SecretStr("x")).keys_file
