"""Bounds on bodies: bytes, time, JSON values, nesting, entries."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import orjson
import pydantic_core
import pytest
from starlette.types import Message, Receive, Scope

from toolgate_core.errors import (
    InvalidRequest,
    RequestTimeout,
    RequestTooLarge,
    ToolgateError,
    UnsupportedEncoding,
)
from toolgate_proxy import json_values
from toolgate_proxy.server import body_guard
from toolgate_proxy.server.transport import body

PLAIN: Scope = {"type": "http", "headers": []}


def sends(*parts: bytes) -> Receive:
    waiting = iter(parts)

    async def receive() -> Message:
        return {"type": "http.request", "body": next(waiting), "more_body": True}

    return receive


async def refused(content: bytes) -> ToolgateError:
    with pytest.raises(ToolgateError) as refusal:
        await body.RequestBody(content).parsed(PLAIN, body_guard.check_bounds)
    return refusal.value


async def test_chunked_body_is_refused_at_the_part_that_exceeds_the_limit() -> None:
    """Later parts are not read: `next` would raise StopIteration."""
    with pytest.raises(RequestTooLarge, match="100 bytes"):
        await body.read(PLAIN, sends(b"a" * 60, b"a" * 41), limit=100, seconds=5)


async def test_content_length_over_the_limit_is_refused_before_the_body_is_read() -> None:
    scope = {"type": "http", "headers": [(b"content-length", b"101")]}
    with pytest.raises(RequestTooLarge):
        await body.read(scope, sends(), limit=100, seconds=5)


async def test_body_at_the_limit_is_read() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"a" * 100}

    scope = {"type": "http", "headers": [(b"content-length", b"100")]}
    sent = await body.read(scope, receive, limit=100, seconds=5)
    assert (sent.size, sent.content) == (100, b"a" * 100)


async def test_stalled_body_is_a_timeout() -> None:
    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(RequestTimeout, match="TOOLGATE_BODY_TIMEOUT"):
        await body.read(PLAIN, receive, limit=100, seconds=0.01)


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"identity, gzip", b"GZIP"])
async def test_compressed_body_is_refused(encoding: bytes) -> None:
    scope = {"type": "http", "headers": [(b"content-encoding", encoding)]}
    with pytest.raises(UnsupportedEncoding):
        await body.read(scope, sends(), limit=100, seconds=5)


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":[' + b",".join([b"1"] * (json_values.MAX_VALUES + 1)) + b"]}",
        b'{"a":[' + b",".join([b"{}"] * (json_values.MAX_VALUES + 1)) + b"]}",
        b'{"a":[' + b",".join([rb'"\""'] * (json_values.MAX_VALUES + 1)) + b"]}",
        b"{" + b",".join(b'"%d":1' % at for at in range(json_values.MAX_VALUES + 1)) + b"}",
    ],
    ids=["numbers", "objects", "strings", "members"],
)
async def test_too_many_values_are_refused_before_they_are_parsed(
    content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: bytes, **__: Any) -> Any:
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
def test_values_are_counted_in_blocks_as_in_the_whole_text(
    content: bytes, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [json_values.exceeds(content, most) for most in range(1, 200)]
    monkeypatch.setattr(json_values, "BLOCK", block)
    assert [json_values.exceeds(content, most) for most in range(1, 200)] == whole


async def test_commas_and_brackets_inside_strings_are_not_values() -> None:
    text = '[{,\\"' * json_values.MAX_VALUES
    content = json.dumps({"a": text, "b": [1, 2]}).encode()
    values = await body.RequestBody(content).parsed(PLAIN, body_guard.check_bounds)
    assert values == {"a": text, "b": [1, 2]}


@pytest.mark.parametrize(("size", "off_loop"), [(10, False), (body.IN_THREAD + 10, True)])
async def test_large_bodies_are_parsed_in_a_thread(
    size: int, off_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    parse = body.from_json

    def noted(content: bytes) -> Any:
        threads.append(threading.get_ident())
        return parse(content)

    monkeypatch.setattr(body, "from_json", noted)
    content = json.dumps({"a": "x" * size}).encode()
    await body.RequestBody(content).parsed(PLAIN, body_guard.check_bounds)
    assert [each != threading.get_ident() for each in threads] == [off_loop]


@pytest.mark.parametrize("other", ["1", "NaN", f'"{"x" * body.LARGE}"'])
async def test_integers_of_more_than_64_bits_are_floats_in_every_body(other: str) -> None:
    content = b'{"a":[%d,{"b":%d}],"c":[%d,true,null],"d":%s}' % (
        *(2**64, -(2**63) - 1, 2**64 - 1),
        other.encode(),
    )
    values = await body.RequestBody(content).parsed(PLAIN, body_guard.check_bounds)
    assert values["a"] == [2.0**64, {"b": -(2.0**63)}]
    assert [type(each) for each in values["a"]] == [float, dict]
    assert values["c"] == [2**64 - 1, True, None]
    assert type(values["c"][0]) is int


@pytest.mark.parametrize("other", ["1", f'"{"x" * body.LARGE}"'])
async def test_an_integer_that_is_too_large_for_a_float_is_refused(other: str) -> None:
    content = b'{"a":[1%s],"d":%s}' % (b"0" * 400, other.encode())
    assert (await refused(content)).code == InvalidRequest.code


@pytest.mark.parametrize("other", ["1", f'"{"x" * body.LARGE}"'])
async def test_long_integers_in_schemas_are_exact_or_no_wider(other: str) -> None:
    number = 2**64 + 1
    content = b'{"a":{"maximum":%d,"minimum":%d},"d":%s}' % (number + 2**12, number, other.encode())
    bounds = (await body.RequestBody(content).parsed(PLAIN, body_guard.check_bounds))["a"]
    assert number <= bounds["minimum"] <= bounds["maximum"] <= number + 2**12
    for place in ("enum", "const"):
        listed = b'{"%s":[%d],"d":%s}' % (place.encode(), number, other.encode())
        assert str(number) in (await refused(listed)).message


def nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return dict(value)


def test_nesting_is_bounded() -> None:
    body_guard.check_bounds(nested(body_guard.MAX_DEPTH))
    with pytest.raises(InvalidRequest, match="levels"):
        body_guard.check_bounds(nested(body_guard.MAX_DEPTH + 1))


@pytest.mark.parametrize("kind", [list, dict.fromkeys])
@pytest.mark.parametrize(
    ("name", "most"),
    [("messages", 10_000), ("metadata", 10_000), ("tools", 10_001), ("unheard_of", 10_000)],
)
def test_number_of_entries_is_bounded(name: str, most: int, kind: Any) -> None:
    body_guard.check_bounds({name: kind(map(str, range(most)))})
    with pytest.raises(InvalidRequest) as refusal:
        body_guard.check_bounds({name: kind(map(str, range(most + 1)))})
    assert refusal.value.param == name


MANY = f"[{'1,' * (json_values.MAX_VALUES // 2 + 1)}1]"


@pytest.mark.parametrize("name", ["arguments", "input", "json"])
def test_values_of_all_json_texts_count_together(name: str) -> None:
    body_guard.check_bounds({"a": {name: MANY}, "b": [{name: '["a,b"]' * 100_000}]})
    with pytest.raises(RequestTooLarge, match="500,000"):
        body_guard.check_bounds({"a": {name: MANY}, "b": [{"c": {name: MANY}}]})


def test_texts_that_are_not_parsed_are_not_counted() -> None:
    body_guard.check_bounds({"input": MANY * 3, "messages": [{"content": MANY * 3}]})


def test_name_of_the_model_is_bounded() -> None:
    body_guard.check_model_name("m" * body_guard.MAX_MODEL_NAME)
    with pytest.raises(InvalidRequest) as refusal:
        body_guard.check_model_name("m" * (body_guard.MAX_MODEL_NAME + 1))
    assert refusal.value.param == "model"


def test_name_of_a_parameter_is_not_repeated_at_length() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        body_guard.check_bounds({"p" * 1_000_000: 1})
    assert len(orjson.dumps(refusal.value.body())) < 3_000
