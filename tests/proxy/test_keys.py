"""Virtual keys: how they are sent, hashed and sealed, how long one is valid, wrong keys, and keys
in a file."""

from datetime import timedelta
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from litellm.proxy.auth import user_api_key_auth
from pydantic import SecretStr, ValidationError
from starlette.requests import Request

from tests.proxy.kit import beside
from tests.support.effort import repeats
from tests.support.servers.virtual_keys import HASHER, key_of, stored
from tests.support.waiting import NOON, Clock
from toolgate_core.errors import InvalidKey, KeysUnavailable, RetiredKey, TooManyWrongKeys
from toolgate_proxy.keys.access import KEY_HEADERS
from toolgate_proxy.keys.access import key_of as sent_key
from toolgate_proxy.keys.file_store import entry, read_keys
from toolgate_proxy.keys.key import Hasher, Terms, hint, new_key
from toolgate_proxy.keys.sync import KeyCache
from toolgate_proxy.limits.key_bounds import FailedAttempts
from toolgate_proxy.litellm_host.auth import KEY_HEADERS as OF_LITELLM
from toolgate_proxy.ops import CommandFailed
from toolgate_proxy.ops.configuration import check
from toolgate_proxy.yaml_files import BadFile

OF_AWS = "AWS4-HMAC-SHA256 Credential={}/20261124/x/bedrock/aws4_request, Signature=x"


@pytest.mark.parametrize("header", KEY_HEADERS)
@pytest.mark.parametrize(
    "scheme", [b"", b"Bearer ", b"bearer ", b"BEARER ", b"bEaReR   ", b"Basic "]
)
def test_a_key_is_read_from_every_header_and_scheme(header, scheme):
    assert sent_key([(b"accept", b"*/*"), (header, scheme + b"sk-1")]) == "sk-1"


@pytest.mark.parametrize(
    "value",
    [
        *("Bearer sk-1", "bearer sk-1", "Basic sk-1"),
        *(OF_AWS.format("Bearer sk-1"), OF_AWS.format("sk-1")),
    ],
)
def test_litellm_reads_the_same_key(value):
    read_by_litellm = user_api_key_auth.get_bearer_token
    assert sent_key([(b"authorization", value.encode())]) == read_by_litellm(value) == "sk-1"


@pytest.mark.parametrize("names", combinations(KEY_HEADERS, 2))
def test_the_header_that_litellm_prefers_decides(names):
    sent = [(names[1], b"Bearer sk-2"), (names[0], b"Bearer sk-1")]
    found, _ = user_api_key_auth.get_api_key(
        **{
            argument: dict(sent).get(header.encode(), b"").decode() or None
            for argument, header in OF_LITELLM.items()
        },
        pass_through_endpoints=None,
        route="/v1/chat/completions",
        request=Request({"type": "http", "headers": sent}),
    )
    assert sent_key(sent) == sent_key(reversed(sent)) == found.removeprefix("Bearer ") == "sk-1"


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        *(
            ([(b"authorization", value)], value.decode())
            for value in (b"Bearer", b"Bearer: sk-1", b"Digest sk-1", b"sk-1 Bearer")
        ),
        ([], None),
        ([(b"accept", b"sk-1"), (b"authorization", b""), (b"x-api-key", b" ")], None),
        ([(b"authorization", b"bearer k"), (b"x-api-key", b"k"), (b"api-key", b"")], "k"),
    ],
)
def test_other_words_are_part_of_the_key_and_empty_headers_have_none(sent, key):
    assert sent_key(sent) == key


def test_a_header_with_two_keys_is_refused():
    sent = [(b"x-litellm-api-key", b"sk-0"), (b"x-api-key", b"sk-1"), (b"x-api-key", b"sk-2")]
    with pytest.raises(InvalidKey, match="several 'x-api-key' headers") as raised:
        sent_key(sent)
    assert "sk-" not in str(raised.value)


@pytest.mark.parametrize(
    "wrong", [{"rpm": 0}, {"tpm": -1}, {"team": "a\nb"}, {"expires": "soon"}, {"limits": {"x": 1}}]
)
def test_invalid_terms_are_rejected(wrong):
    with pytest.raises(ValidationError):
        key_of(new_key(), **wrong) if "limits" not in wrong else Terms(**wrong)


def test_new_keys_are_long_and_differ_and_are_shown_by_a_hint():
    made = {new_key() for _ in range(100)}
    assert (len(made), {len(key) for key in made}) == (100, {49})
    assert all(hint(key) == f"sk-tg-…{key[-4:]}" for key in made)
    key = key_of(new_key(), "search", rpm=5, models=("small",))
    shown = str(key.shown(NOON))
    assert key.secrets[0].hash not in shown
    assert "'rpm': 5" in shown


@given(st.text(), st.text())
def test_hash_depends_on_key_and_secret(a, b):
    assert (HASHER.hash(a) == HASHER.hash(b)) == (a == b)
    assert Hasher(SecretStr("another")).hash(a) != HASHER.hash(a)


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(1, 255))
def test_changed_or_moved_record_is_rejected(record, at, change):
    sealed = HASHER.seal("key_1", record)
    assert HASHER.open("key_1", sealed) == record
    assert HASHER.open("key_2", sealed) is None
    at %= len(sealed)
    broken = sealed[:at] + bytes([sealed[at] ^ change]) + sealed[at + 1 :]
    assert HASHER.open("key_1", broken) is None


def cache_of(clock, *keys):
    key_cache = KeyCache(HASHER, grace=300, wall_clock=clock.wall, clock=clock)
    key_cache.replace(keys)
    key_cache.confirm()
    return key_cache


def test_expired_blocked_and_revoked_keys_are_rejected():
    clock = Clock()
    expiring, blocked, revoked = new_key(), new_key(), new_key()
    key_cache = cache_of(
        clock,
        key_of(expiring, expires=NOON + timedelta(seconds=10)),
        key_of(blocked, blocked=True),
        key_of(revoked).model_copy(update={"revoked": NOON}),
    )
    assert key_cache.find(expiring)
    clock.seconds += 10
    for sent, word in ((expiring, "expired"), (blocked, "blocked"), (revoked, "revoked")):
        with pytest.raises(InvalidKey, match=word):
            key_cache.find(sent)


def test_rotated_key_and_its_successor_overlap():
    clock, old, new, newest = Clock(), new_key(), new_key(), new_key()
    key = key_of(old).rotated(stored(new), timedelta(hours=1), NOON)
    key_cache = cache_of(clock, key)
    assert key_cache.find(old).id == key_cache.find(new).id == key.id
    clock.seconds += 3600
    key_cache.confirm()
    with pytest.raises(InvalidKey, match="rotated"):
        key_cache.find(old)
    assert key_cache.find(new)
    again = key.rotated(stored(newest), timedelta(hours=1), NOON + timedelta(hours=2))
    assert [secret.hint for secret in again.secrets] == [hint(newest), hint(new)]
    assert len(key.rotated(stored(newest), timedelta(0), NOON).secrets) == 1


def test_cached_keys_expire_after_the_grace_period():
    clock, sent, from_file = Clock(), new_key(), new_key()
    key_cache = cache_of(clock)
    key_cache.replace([key_of(sent)], from_file=[key_of(from_file)])
    clock.seconds += 300
    assert key_cache.find(sent)
    clock.seconds += 1
    for unsure in (sent, new_key()):
        with pytest.raises(KeysUnavailable):
            key_cache.find(unsure)
    assert key_cache.find(from_file)
    key_cache.confirm()
    assert key_cache.find(sent)


def test_only_revoked_blocked_and_removed_keys_end_running_responses():
    clock = Clock()
    key = key_of(new_key(), expires=NOON + timedelta(seconds=10))
    key_cache = cache_of(clock, key)
    clock.seconds += 20
    key_cache.require_current(key)
    key_cache.replace([key.rotated(stored(new_key()), timedelta(0), NOON)])
    key_cache.require_current(key)
    blocked = key.model_copy(update={"terms": key.terms.model_copy(update={"blocked": True})})
    revoked = key.model_copy(update={"revoked": NOON})
    for keys, word in (([revoked], "revoked"), ([blocked], "blocked"), ([], "removed")):
        key_cache.replace(keys)
        with pytest.raises(RetiredKey, match=f"was {word} during the response"):
            key_cache.require_current(key)


def test_wrong_keys_are_limited_per_client_address(monkeypatch):
    clock = Clock()
    failed_attempts = FailedAttempts(20, clock)
    for _ in range(20):
        failed_attempts.count("a")
        clock.seconds += 1
    with pytest.raises(TooManyWrongKeys) as refused:
        failed_attempts.count("a")
    failed_attempts.count("b")
    assert refused.value.retry_after == 40
    monkeypatch.setattr("toolgate_proxy.limits.key_bounds.MAX_ADDRESSES", 2)
    failed_attempts = FailedAttempts(1, Clock())
    for address in ("a", "b", "c", "a"):  # the oldest is dropped
        failed_attempts.count(address)
    with pytest.raises(TooManyWrongKeys):
        failed_attempts.count("c")


@given(st.lists(st.floats(0, 30), max_size=100))
def test_no_minute_has_more_wrong_keys_than_the_limit(pauses):
    clock, told, waits = Clock(), [], []
    failed_attempts = FailedAttempts(5, clock)
    for pause in pauses:
        clock.seconds += pause
        try:
            failed_attempts.count("a")
        except TooManyWrongKeys as refused:
            waits.append(refused.retry_after)
            clock.seconds += refused.retry_after
            failed_attempts.count("a")
        told.append(clock.seconds)
    assert all(later - first >= 60 for first, later in zip(told, told[5:], strict=False))
    assert all(1 <= wait <= 60 for wait in waits)


def test_a_key_file_is_read(tmp_path):
    sent = new_key()
    key = key_of(sent, "search", team="web", models=("small", "large"), rpm=600, blocked=True)
    path = tmp_path / "keys.yaml"
    path.write_text("keys:\n" + entry(key) + entry(key_of(new_key(), "other", expires=NOON)))
    first, second = read_keys(path, HASHER)
    assert (first.alias, first.terms, first.secrets) == (key.alias, key.terms, key.secrets)
    assert second.terms.expires == NOON
    assert read_keys(path, HASHER)[0].id == first.id
    assert sent not in path.read_text()
    with pytest.raises(BadFile, match="cannot be read"):
        read_keys(tmp_path / "no.yaml", HASHER)


HASH = "a" * 64
ENTRY = f"keys:\n  - alias: a\n    hash: {HASH}\n"
VALID = "keys:\n" + entry(key_of("sk-tg-of-the-damaged-files", "search", rpm=600, team="web"))
TAGGED = ("!!python/name:os", "!!int x", "!!int ''", "!!bool x", "!!timestamp x", "2020-13-99")


def test_an_error_in_a_key_file_has_its_place(tmp_path):
    rows = [(text.replace("HASH", HASH), said) for text, said in beside(__file__)["files"]]
    rows += [(f"{ENTRY}    rpm: {value}\n", "invalid YAML: ") for value in TAGGED]
    for text, said in rows:
        path = tmp_path / "keys.yaml"
        path.write_text(text)
        with pytest.raises(BadFile) as refused:
            read_keys(path, HASHER)
        assert said in str(refused.value), text
        assert HASH not in str(refused.value)
        of_a_tag = any(value in text for value in TAGGED)
        assert ("its tag" in str(refused.value)) == of_a_tag, text


WORDS = (
    *("keys:", "- ", "alias: ", "hash: ", "a" * 64, "rpm: ", "*a", "&a ", "!!python/name:os", "\n"),
    *("  ", "[", "{", "]", "}", "'", '"', "\t", "\x00", "\x07", "\u0085", "é", "2020-13-99"),
    *("1e999", "? ", "| ", "<<: ", "%YAML", "---", "...", "0x", ".inf", "~", "="),
)
texts = st.lists(st.sampled_from(WORDS), max_size=25).map("".join)


@st.composite
def damaged(draw):
    """A valid file in which a part was replaced."""
    begin = draw(st.integers(0, len(VALID)))
    end = draw(st.integers(begin, min(len(VALID), begin + 30)))
    return VALID[:begin] + draw(texts) + VALID[end:]


def refused_or_read(path, content):
    path.write_bytes(content)
    refusals = []
    for read in (lambda: read_keys(path, HASHER), lambda: check(path, {})):
        try:
            read()
        except (BadFile, CommandFailed) as error:
            refusals.append(str(error))
    assert all(str(path) in each and "sk-tg-" not in each for each in refusals)


@settings(
    max_examples=repeats(80, nightly=300),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given((texts | damaged()).map(str.encode) | st.binary(max_size=60))
def test_damaged_files_are_refused(tmp_path, content):
    refused_or_read(tmp_path / "keys.yaml", content)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "content",
    [
        pytest.param("keys: " + "[" * 2000, id="arrays"),
        pytest.param("keys: " + "{a: " * 5000, id="objects"),
        pytest.param("- " * 3000, id="lists"),
        pytest.param("keys: \x07", id="control"),
        pytest.param("a: &a [*a, *a]\nkeys: *a\n", id="cycle"),
        pytest.param(
            "".join(
                f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]\n" for n in range(12)
            ),
            id="aliases",
        ),
    ],
)
def test_files_that_grow_or_nest_are_refused(tmp_path, content):
    refused_or_read(tmp_path / "keys.yaml", content.encode())
