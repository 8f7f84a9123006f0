"""Bodies of requests: parsing, the checks before LiteLLM sees them, whose they count as, and that
refused ones are freed. Those of any bytes are JSON objects within bounds (bytes, time, values,
nesting, entries), or refusals."""

import asyncio
import gc
import json
import threading
import time
import tracemalloc
from collections import Counter
from contextlib import suppress

import orjson
import pydantic_core
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from litellm.proxy import proxy_server

from tests.proxy.server.kit import REFUSALS
from tests.support.effort import repeats
from tests.support.litellm.own_route import MASTER, chat
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_core import errors
from toolgate_proxy import json_values
from toolgate_proxy.api.shared.parameter import unknown
from toolgate_proxy.context import RequestContext
from toolgate_proxy.json_values import check_texts
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.limits.key_bounds import SMALL_ROOM
from toolgate_proxy.server import body, body_guard, incoming
from toolgate_proxy.server.body_guard import check, check_controls, check_shape

SCOPE = {"type": "http", "headers": []}
CHAT = "/v1/chat/completions"


async def parsed(data, content_type=None):
    headers = [] if content_type is None else [(b"content-type", content_type.encode())]
    scope = {"type": "http", "headers": headers}
    return await body.RequestBody(data).parsed(scope)


def message(data, *, more=False):
    return {"type": "http.request", "body": data, "more_body": more}


async def test_error_names_the_field_of_the_wrong_type():
    for sent, param in REFUSALS["shapes"]:
        with pytest.raises(errors.InvalidRequest) as refusal:
            check_shape(await parsed(json.dumps(sent).encode()))
        assert refusal.value.param == param, sent
    images = {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}
    for sent in ({}, {"messages": None, "tools": None}, images):
        check_shape(await parsed(json.dumps(sent).encode()))


async def test_what_is_no_json_or_in_another_form_is_rejected():
    for sent in (b"", b"{", b"\xff", b'{"a": 1} x'):
        with pytest.raises(errors.InvalidRequest):
            await parsed(sent)
    for kind in ("application/x-www-form-urlencoded", "Multipart/Form-Data; boundary=x"):
        with pytest.raises(errors.InvalidRequest, match="application/json"):
            await parsed(b"{}", kind)
    for kind in ("text/plain", "application/json"):
        assert await parsed(b"{}", kind) == {}
    assert await parsed(b'{"a": "\\ud800"}') == {"a": "\ud800"}
    assert await parsed(b'{"a\\u005fb": 1, "c": 2, "c": 3}') == {"a_b": 1, "c": 3}
    for other in ('{"a": 1}'.encode("utf-16"), b'\xef\xbb\xbf{"a": 1}'):
        assert await parsed(other) == {"a": 1}, "what is checked is what LiteLLM would read"


async def test_body_is_read_completely_and_can_be_read_again():
    gone = {"type": "http.disconnect"}
    begun = message(b'{"a', more=True), message(b'": 1}')
    waiting = iter([*begun, gone, message(b"{", more=True), gone])

    async def receive():
        return next(waiting)

    read = await body.read(SCOPE, receive, limit=100, seconds=5)
    assert await read.parsed(SCOPE) == {"a": 1}
    again = read.again(receive)
    assert [await again() for _ in range(2)] == [message(b'{"a": 1}'), gone]
    with pytest.raises(errors.ClientDisconnected):
        await body.read(SCOPE, receive, limit=100, seconds=5)


@pytest.fixture
def claude(monkeypatch):
    """Another provider has the model `claude`, and we have `small`, on LiteLLM's route."""
    monkeypatch.setattr(body_guard, "is_foreign", lambda model, _: model == "claude")
    monkeypatch.setattr(body_guard, "rows_of", lambda model, _: [{}] if model == "small" else [])
    monkeypatch.setattr(body_guard, "litellms_reason", lambda *_: "a reason")


@pytest.mark.usefixtures("claude")
@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/messages/count_tokens", "/responses/", "/openai/v1/responses"]
)
def test_our_models_on_litellms_route_have_no_converted_api(path):
    """LiteLLM would convert the request to a chat completion, and lose parts of it."""
    check(path, {"model": "claude"})
    with pytest.raises(errors.UnsupportedParameter) as refusal:
        check(path, {"model": "small"})
    assert refusal.value.param == "model"
    with pytest.raises(errors.ModelNotFound):
        check(path, {"model": "unknown"})
    with pytest.raises(errors.InvalidRequest):
        check(path, {})
    for other in ("/v1/threads/thread_1/messages", "/azure/openai/responses"):
        check(other, {"role": "user", "model": "small"})


def test_control_fields_are_rejected_wherever_litellm_reads_them():
    for sent, param in REFUSALS["controls"]:
        with pytest.raises(errors.UnsupportedParameter) as refusal:
            check_controls(sent)
        assert refusal.value.param == param
    check_controls({"metadata": {"fallbacks": "mine", "user": "u"}, "user": "u"})


@pytest.mark.usefixtures("claude")
def test_unknown_parameters_are_accepted_only_for_other_providers():
    """A path may name another model than the body does."""
    check(CHAT, {"model": "claude", "messages": [], "new_parameter": 1})
    other = "/openai/deployments/claude/chat/completions"
    for path, model in ((CHAT, "ours"), (other, "claude"), (CHAT, None)):
        with pytest.raises(errors.UnsupportedParameter) as refusal:
            check(path, {"model": model, "messages": [], "new_parameter": 1})
        assert refusal.value.param == "new_parameter"
    assert json.dumps(unknown("a\ud800").body(), ensure_ascii=False).encode()


def test_a_check_refuses_lists_of_models_at_the_paths_of_models():
    for path, model in ((CHAT, "a,b"), ("/engines/a,b/chat/completions", "c")):
        with pytest.raises(errors.InvalidRequest) as refusal:
            check(path, {"model": model})
        assert refusal.value.param == "model"
    paths = "engines/x/chat/completions chat/completions/ v1/responses v1/messages v1/embeddings"
    for path in (CHAT, *(f"/{each}" for each in [*paths.split(), "v1/completions/"])):
        assert body_guard.is_guarded(path), path
    for path in ("/v1/models", "/toolgate/prewarm"):
        assert not body_guard.is_guarded(path), path


LITELLMS = "/v1/embeddings"
"""A route of LiteLLM, which answers with status 299 here."""


@pytest.fixture(params=[False, True], ids=["alone", "database"])
def database(request, gateway, monkeypatch):
    """Whether LiteLLM has a database. It then checks keys after the body."""
    if request.param:
        monkeypatch.setattr(proxy_server, "prisma_client", object())
    return bool(request.param)


def fill(gateway, owner):
    gateway.here.bodies.add(owner, gateway.here.bodies.limit + SMALL_ROOM)


async def status(gateway, key):
    return (await gateway.ask({"input": "x"}, path=LITELLMS, key=key)).status


async def test_bodies_of_strangers_leave_the_room_of_keys(gateway, database):
    sent = new_key()
    gateway.add_key(sent, key_of(sent))
    fill(gateway, "")
    assert await status(gateway, sent) == await status(gateway, MASTER) == 299
    for key in (None, new_key(), "x" * 10_000):
        assert await status(gateway, key) == (429 if database else 401)


async def test_bodies_of_a_key_leave_the_room_of_others(gateway, database):
    sent = new_key()
    gateway.add_key(sent, key := key_of(sent))
    fill(gateway, key.id)
    assert await status(gateway, sent) == 429
    assert await status(gateway, MASTER) == 299
    assert await status(gateway, new_key()) == (299 if database else 401)


async def test_a_retired_key_has_no_room_of_its_own(gateway, database):
    sent = new_key()
    gateway.add_key(sent, key := key_of(sent, blocked=True))
    fill(gateway, key.id)
    assert await status(gateway, sent) == (299 if database else 401)
    fill(gateway, "")
    assert await status(gateway, sent) == (429 if database else 401)


@pytest.mark.usefixtures("database")
async def test_a_body_counts_until_its_request_has_ended(gateway):
    sent = new_key()
    gateway.add_key(sent, key := key_of(sent))
    leave = asyncio.Event()
    gateway.backend.turns = [Script(("Hello.",), hang_after=0)]
    data = json.dumps(chat("go", metadata={"a": "x" * 100_000})).encode()
    asked = asyncio.create_task(gateway.ask(data, key=sent, leave_after=leave))
    await until(lambda: gateway.backend.requests)
    assert gateway.here.bodies.used(key.id) == len(data)
    gateway.here.bodies.limit = len(data)
    assert (await gateway.ask(data, key=sent)).status == 429
    leave.set()
    response = await asked
    response.context.release_body()  # as RequestScope does, which is not in front here
    assert gateway.here.bodies.used(key.id) == 0


SIZE, TIMES = 500_000, 3
TOOL = {"type": "function", "function": {"name": "a", "description": "x" * SIZE}}
FREED = {
    "value": (chat("x" * SIZE, temperature="hot"), 400, {}),
    "parameter": (chat("x" * SIZE, no_parameter=1), 400, {}),
    "bounds": (chat("x" * SIZE, deep=[[[[]]]] * 10_001), 400, {}),
    "limit of the key": (chat("x" * SIZE), 429, {"tpm": 10}),
    "tools": (chat("hi", tools=[{**TOOL, "defer_loading": True}]), 200, {}),
}


@pytest.mark.parametrize(("sent", "status", "terms"), FREED.values(), ids=FREED)
async def test_the_body_of_a_request_is_freed_at_once(gateway, sent, status, terms):
    """With the response, not by a later garbage collection."""
    key = new_key()
    gateway.add_key(key, key_of(key, **terms))
    assert (await gateway.ask(sent, key=key)).status == status
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(TIMES):
            assert (await gateway.ask(sent, key=key)).status == status
        await asyncio.sleep(0.05)  # cancelled tasks end
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert left < SIZE


# --- reading --------------------------------------------------------------------------------------

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


async def test_a_body_is_read_up_to_the_limit_of_bytes_and_of_time():
    for headers in ((), [(b"content-length", b"100")]):
        sent = await read(b"a" * 100, headers=headers)
        assert (sent.size, sent.content) == (100, b"a" * 100)
    with pytest.raises(errors.RequestTooLarge, match="100 bytes"):
        await read(b"a" * 60, b"a" * 41)
    with pytest.raises(errors.RequestTooLarge):
        await read(headers=[(b"content-length", b"101")])
    with pytest.raises(errors.RequestTimeout, match="TOOLGATE_BODY_TIMEOUT"):
        await read(b"a", b"", seconds=0.01)
    for encoding in (b"gzip", b"br", b"identity, gzip", b"GZIP"):
        with pytest.raises(errors.UnsupportedEncoding):
            await read(headers=[(b"content-encoding", encoding)])


# --- parsing --------------------------------------------------------------------------------------


async def refused(content):
    with pytest.raises(errors.ToolgateError) as refusal:
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
    with suppress(errors.InvalidRequest, errors.RequestTooLarge):
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
    assert (await refused(content)).code == errors.RequestTooLarge.code


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

    def noted(content):
        threads.append(threading.get_ident())
        return json_values.read_object(content)

    monkeypatch.setattr(body, "read_object", noted)
    await parsed(json.dumps({"a": "x" * size}).encode())
    assert [each != threading.get_ident() for each in threads] == [off_loop]


SMALL_AND_LARGE = pytest.mark.parametrize(
    "other", [b"1", b"NaN", b'"%s"' % (b"x" * json_values.LARGE)]
)
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
    assert (
        await refused(b'{"a":[1%s],"d":%s}' % (b"0" * 400, other))
    ).code == errors.InvalidRequest.code


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


@pytest.mark.parametrize("other", [b"1", b"NaN", b"[[[]]]"])
async def test_nesting_is_bounded(other):
    most = json_values.MAX_DEPTH
    deepest = b'{"b":%s,' % other + b'"a":{' * (most - 1) + b"%s" + b"}" * most
    for kind in (b'"a":1', b'"a":[]', b'"a":{}'):
        assert "a" in await parsed(deepest % kind)
        assert "200 levels" in (await refused(deepest % (b'"a":{%s}' % kind))).message


@pytest.mark.parametrize("kind", [list, dict.fromkeys])
@pytest.mark.parametrize(
    ("name", "most"),
    [("messages", 10_000), ("metadata", 10_000), ("tools", 10_001), ("unheard_of", 10_000)],
)
def test_number_of_entries_is_bounded(name, most, kind):
    body.check_bounds({name: kind(map(str, range(most)))})
    with pytest.raises(errors.InvalidRequest) as refusal:
        body.check_bounds({name: kind(map(str, range(most + 1)))})
    assert refusal.value.param == name


PARTS = {
    "messages": lambda count: [
        {"role": "user", "content": [{"type": "text", "text": "a"}] * count}
    ],
    "input": lambda count: [{"content": [1] * (count - 1)}, {"tool_calls": [{}]}],
    "results": lambda count: [{"content": [{"content": [{}] * (count - 2)}, {}]}],
}


@pytest.mark.parametrize("name", PARTS)
async def test_parts_and_calls_of_all_messages_are_bounded_together(name):
    at_most = {name: PARTS[name](body.MAX_ENTRIES)}
    assert await parsed(json.dumps(at_most).encode()) == at_most
    with pytest.raises(errors.InvalidRequest, match="10,001 parts and calls") as refusal:
        await parsed(json.dumps({name: PARTS[name](body.MAX_ENTRIES + 1)}).encode())
    assert refusal.value.param == name
    body.check_bounds({"tools": PARTS["messages"](20_000)})  # have schemas, and bounds of their own


async def test_a_sender_has_one_large_body_in_work_at_a_time(monkeypatch):
    running, most = Counter(), Counter()

    def noted(content):
        sender = json_values.read_object(content)["user"]
        running[sender] += 1
        running["all"] += 1
        for each in (sender, "all"):
            most[each] = max(most[each], running[each])
        time.sleep(0.02)
        running[sender] -= 1
        running["all"] -= 1
        return {}

    async def read_one(sender):
        context = RequestContext()
        context.caller.identity = sender
        text = json.dumps({"user": sender, "input": "x" * body.IN_THREAD}).encode()
        await incoming.values_of(body.RequestBody(text), dict(SCOPE), context)

    monkeypatch.setattr(body, "read_object", noted)
    await asyncio.gather(*(read_one(sender) for sender in "aabbcc" * 2))
    assert most == {"a": 1, "b": 1, "c": 1, "all": 2}


MANY = f"[{'1,' * (MAX // 2 + 1)}1]"


@pytest.mark.parametrize("name", ["arguments", "input", "json"])
def test_values_of_all_json_texts_count_together(name):
    check_texts({"a": {name: MANY}, "b": [{name: '["a,b"]' * 100_000}]})
    with pytest.raises(errors.RequestTooLarge, match="500,000"):
        check_texts({"a": {name: MANY}, "b": [{"c": {name: MANY}}]})
    check_texts({"input": MANY * 3, "messages": [{"content": MANY * 3}]})  # are not parsed


def test_names_are_bounded_and_not_repeated_at_length():
    body.check_model_name("m" * body.MAX_MODEL_NAME)
    with pytest.raises(errors.InvalidRequest) as refusal:
        body.check_model_name("m" * (body.MAX_MODEL_NAME + 1))
    assert refusal.value.param == "model"
    with pytest.raises(errors.InvalidRequest) as refusal:
        body.check_bounds({"p" * 1_000_000: 1})
    assert len(orjson.dumps(refusal.value.body())) < 3_000
