"""Bodies of any bytes are JSON objects within bounds (bytes, time, values, nesting, entries), or
refusals."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress

import orjson
import pydantic_core
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from toolgate_core.errors import (
    InvalidRequest,
    RequestTimeout,
    RequestTooLarge,
    ToolgateError,
    UnsupportedEncoding,
)
from toolgate_proxy import json_values
from toolgate_proxy.server import body_guard
from toolgate_proxy.server.body_guard import check_bounds
from toolgate_proxy.server.transport import body

MAX = json_values.MAX_VALUES


# --- reading --------------------------------------------------------------------------------------


async def read(*parts, headers=(), seconds=5):
    """The body of these parts, which ends with its hundredth byte. Others would raise IndexError,
    unless the client waits."""
    waiting = [*parts]

    async def receive():
        await (asyncio.Event().wait() if waiting == [b""] else asyncio.sleep(0))
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": len(part) < 100}

    scope = {"type": "http", "headers": [*headers]}
    return await body.read(scope, receive, limit=100, seconds=seconds)


async def test_body_at_the_limit_is_read():
    for headers in ((), [(b"content-length", b"100")]):
        sent = await read(b"a" * 100, headers=headers)
        assert (sent.size, sent.content) == (100, b"a" * 100)


async def test_body_above_the_limit_is_refused_at_the_part_that_exceeds_it_or_before():
    with pytest.raises(RequestTooLarge, match="100 bytes"):
        await read(b"a" * 60, b"a" * 41)
    with pytest.raises(RequestTooLarge):
        await read(headers=[(b"content-length", b"101")])


async def test_stalled_body_is_a_timeout():
    with pytest.raises(RequestTimeout, match="TOOLGATE_BODY_TIMEOUT"):
        await read(b"a", b"", seconds=0.01)


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"identity, gzip", b"GZIP"])
async def test_compressed_body_is_refused(encoding):
    with pytest.raises(UnsupportedEncoding):
        await read(headers=[(b"content-encoding", encoding)])


# --- parsing --------------------------------------------------------------------------------------


async def parsed(content):
    scope = {"type": "http", "headers": [(b"content-type", b"application/json")]}
    return await body.RequestBody(content).parsed(scope, check_bounds)


async def refused(content):
    with pytest.raises(ToolgateError) as refusal:
        await parsed(content)
    return refusal.value


WORDS = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b'"a"', b"null", b"NaN", b"-", b"1e999"),
    *(b"\\u0000", b"\\ud800", b"\xff", b"\xef\xbb\xbf", b"\x00", b"0" * 5000, b" ", b"\\"),
)
contents = st.lists(st.sampled_from(WORDS), max_size=30).map(b"".join) | st.binary(max_size=60)


@settings(max_examples=repeats(100, nightly=300))
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b'{"a":' * 900 + b"1" + b"}" * 900)
@example(b'{"a":' + b"9" * 5000 + b"}")
@example(b'{"a":"' + b"\\" * 99_999 + b'"}')
@given(contents)
async def test_damaged_bodies_are_refused(content):
    with suppress(InvalidRequest, RequestTooLarge):
        assert isinstance(await parsed(content), dict)


integers = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=repeats(40, nightly=100))
@given(st.dictionaries(st.text(max_size=5), integers | st.text(max_size=9) | st.none()))
async def test_objects_are_read_as_they_are(values):
    text = json.dumps(values)
    assert await parsed(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":[' + b",".join([b"1"] * (MAX + 1)) + b"]}",
        b'{"a":[' + b",".join([b"{}"] * (MAX + 1)) + b"]}",
        b'{"a":[' + b",".join([rb'"\""'] * (MAX + 1)) + b"]}",
        b"{" + b",".join(b'"%d":1' % at for at in range(MAX + 1)) + b"}",
    ],
    ids=["numbers", "objects", "strings", "members"],
)
async def test_too_many_values_are_refused_before_they_are_parsed(content, monkeypatch):
    def never(_, **__):
        raise AssertionError

    for module, name in ((orjson, "loads"), (pydantic_core, "from_json")):
        monkeypatch.setattr(module, name, never)
    assert (await refused(content)).code == RequestTooLarge.code


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":"%s"}' % (b'[{,"\\"\\\\' * 40),
        b'{"a":[%s1]}' % (b'"\\\\","\\"",' * 40),
        b'"' * 200,
        b"\\" * 200,
        b"[" * 200,
    ],
)
@pytest.mark.parametrize("block", [2, 3, 7, 1000])
def test_values_are_counted_in_blocks_as_in_the_whole_text(content, block, monkeypatch):
    whole = [json_values.exceeds(content, most) for most in range(1, 200)]
    monkeypatch.setattr(json_values, "BLOCK", block)
    assert [json_values.exceeds(content, most) for most in range(1, 200)] == whole


async def test_commas_and_brackets_inside_strings_are_not_values():
    values = {"a": '[{,\\"' * MAX, "b": [1, 2]}
    assert await parsed(json.dumps(values).encode()) == values


@pytest.mark.parametrize(("size", "off_loop"), [(10, False), (body.IN_THREAD + 10, True)])
async def test_large_bodies_are_parsed_in_a_thread(size, off_loop, monkeypatch):
    threads = []
    parse = body.from_json

    def noted(content):
        threads.append(threading.get_ident())
        return parse(content)

    monkeypatch.setattr(body, "from_json", noted)
    await parsed(json.dumps({"a": "x" * size}).encode())
    assert [each != threading.get_ident() for each in threads] == [off_loop]


SMALL_AND_LARGE = pytest.mark.parametrize("other", [b"1", b"NaN", b'"%s"' % (b"x" * body.LARGE)])
"""A member beside the tested one, by which bodies are parsed in one way or another."""


@SMALL_AND_LARGE
async def test_integers_of_more_than_64_bits_are_floats_in_every_body(other):
    content = b'{"a":[%d,{"b":%d}],"c":[%d,true,null],"d":%s}' % (
        *(2**64, -(2**63) - 1, 2**64 - 1),
        other,
    )
    values = await parsed(content)
    assert values["a"] == [2.0**64, {"b": -(2.0**63)}]
    assert [type(each) for each in values["a"]] == [float, dict]
    assert values["c"] == [2**64 - 1, True, None]
    assert type(values["c"][0]) is int
    assert (await refused(b'{"a":[1%s],"d":%s}' % (b"0" * 400, other))).code == InvalidRequest.code


@SMALL_AND_LARGE
async def test_long_integers_in_schemas_are_exact_or_no_wider(other):
    number = 2**64 + 1
    content = b'{"a":{"maximum":%d,"minimum":%d},"d":%s}' % (number + 2**12, number, other)
    bounds = (await parsed(content))["a"]
    assert number <= bounds["minimum"] <= bounds["maximum"] <= number + 2**12
    for place in (b"enum", b"const"):
        listed = b'{"%s":[%d],"d":%s}' % (place, number, other)
        assert str(number) in (await refused(listed)).message


# --- bounds ---------------------------------------------------------------------------------------


def nested(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def test_nesting_is_bounded():
    check_bounds(nested(body_guard.MAX_DEPTH))
    with pytest.raises(InvalidRequest, match="levels"):
        check_bounds(nested(body_guard.MAX_DEPTH + 1))


@pytest.mark.parametrize("kind", [list, dict.fromkeys])
@pytest.mark.parametrize(
    ("name", "most"),
    [("messages", 10_000), ("metadata", 10_000), ("tools", 10_001), ("unheard_of", 10_000)],
)
def test_number_of_entries_is_bounded(name, most, kind):
    check_bounds({name: kind(map(str, range(most)))})
    with pytest.raises(InvalidRequest) as refusal:
        check_bounds({name: kind(map(str, range(most + 1)))})
    assert refusal.value.param == name


MANY = f"[{'1,' * (MAX // 2 + 1)}1]"


@pytest.mark.parametrize("name", ["arguments", "input", "json"])
def test_values_of_all_json_texts_count_together(name):
    check_bounds({"a": {name: MANY}, "b": [{name: '["a,b"]' * 100_000}]})
    with pytest.raises(RequestTooLarge, match="500,000"):
        check_bounds({"a": {name: MANY}, "b": [{"c": {name: MANY}}]})


def test_texts_that_are_not_parsed_are_not_counted():
    check_bounds({"input": MANY * 3, "messages": [{"content": MANY * 3}]})


def test_names_are_bounded_and_not_repeated_at_length():
    body_guard.check_model_name("m" * body_guard.MAX_MODEL_NAME)
    with pytest.raises(InvalidRequest) as refusal:
        body_guard.check_model_name("m" * (body_guard.MAX_MODEL_NAME + 1))
    assert refusal.value.param == "model"
    with pytest.raises(InvalidRequest) as refusal:
        check_bounds({"p" * 1_000_000: 1})
    assert len(orjson.dumps(refusal.value.body())) < 3_000
