"""Bodies of requests: parsing, the checks before LiteLLM sees them, whose they count as, and that
refused ones are freed."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from typing import Any

import pytest
from litellm.proxy import proxy_server
from starlette.types import Message, Scope

from tests.proxy.server.kit import REFUSALS
from tests.support.litellm.own_route import MASTER, Gateway, chat
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_core.errors import (
    ClientDisconnected,
    InvalidRequest,
    ModelNotFound,
    UnsupportedParameter,
)
from toolgate_proxy.api.shared.parameter import unknown
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.limits.key_bounds import SMALL_ROOM
from toolgate_proxy.server import body_guard
from toolgate_proxy.server.body_guard import check, check_controls, check_shape
from toolgate_proxy.server.transport import body

Json = dict[str, Any]
SCOPE = {"type": "http", "headers": []}
CHAT = "/v1/chat/completions"


async def parsed(data: bytes, content_type: str | None = None) -> Json:
    headers = [] if content_type is None else [(b"content-type", content_type.encode())]
    scope: Scope = {"type": "http", "headers": headers}
    return await body.RequestBody(data).parsed(scope, body_guard.check_bounds)


def message(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": data, "more_body": more}


async def test_error_names_the_field_of_the_wrong_type():
    for sent, param in REFUSALS["shapes"]:
        with pytest.raises(InvalidRequest) as refusal:
            check_shape(await parsed(json.dumps(sent).encode()))
        assert refusal.value.param == param, sent
    images = {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}
    for sent in ({}, {"messages": None, "tools": None}, images):
        check_shape(await parsed(json.dumps(sent).encode()))


@pytest.mark.parametrize("sent", [b"", b"{", b"[" * 10_000, b"\xff", b'{"a": 1} x'])
async def test_invalid_json_is_rejected(sent):
    with pytest.raises(InvalidRequest):
        await parsed(sent)


async def test_form_body_is_rejected_with_the_expected_content_type():
    for kind in ("application/x-www-form-urlencoded", "Multipart/Form-Data; boundary=x"):
        with pytest.raises(InvalidRequest, match="application/json"):
            await parsed(b"{}", kind)
    assert await parsed(b"{}", "text/plain") == {}
    assert await parsed(b'{"a": "\\ud800"}') == {"a": "\ud800"}


async def test_body_is_read_completely_and_can_be_read_again():
    gone: Message = {"type": "http.disconnect"}
    waiting = iter([message(b'{"a', more=True), message(b'": 1}'), gone, message(b"{", more=True),
                    gone])  # fmt: skip

    async def receive() -> Message:
        return next(waiting)

    read = await body.read(SCOPE, receive, limit=100, seconds=5)
    assert await read.parsed(SCOPE, body_guard.check_bounds) == {"a": 1}
    again = read.again(receive)
    assert [await again() for _ in range(2)] == [message(b'{"a": 1}'), gone]
    with pytest.raises(ClientDisconnected):
        await body.read(SCOPE, receive, limit=100, seconds=5)


@pytest.fixture
def claude(monkeypatch):
    """Another provider has the model `claude`, and we have `small`, on LiteLLM's route."""
    monkeypatch.setattr(body_guard, "is_foreign", lambda model, _: model == "claude")
    monkeypatch.setattr(body_guard, "rows_of", lambda model, _: [{}] if model == "small" else [])
    monkeypatch.setattr(body_guard, "litellms_reason", lambda *_: "a reason")


@pytest.mark.usefixtures("claude")
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/responses"])
def test_our_models_on_litellms_route_have_no_converted_api(path):
    """LiteLLM would convert the request to a chat completion, and lose parts of it."""
    assert check(path, {"model": "claude"}) is False
    with pytest.raises(UnsupportedParameter) as refusal:
        check(path, {"model": "small"})
    assert refusal.value.param == "model"
    with pytest.raises(ModelNotFound):
        check(path, {"model": "unknown"})
    with pytest.raises(InvalidRequest):
        check(path, {})
    assert check("/v1/threads/thread_1/messages", {"role": "user"}) is False


def test_control_fields_are_rejected_wherever_litellm_reads_them():
    for sent, param in REFUSALS["controls"]:
        with pytest.raises(UnsupportedParameter) as refusal:
            check_controls(sent)
        assert refusal.value.param == param
    check_controls({"metadata": {"fallbacks": "mine", "user": "u"}, "user": "u"})


@pytest.mark.usefixtures("claude")
@pytest.mark.parametrize(
    ("path", "model", "refused"),
    [
        (CHAT, "ours", True),
        (CHAT, "claude", False),
        ("/openai/deployments/claude/chat/completions", "claude", True),
        (CHAT, None, True),
    ],
)
def test_unknown_parameters_are_accepted_only_for_other_providers(path, model, refused):
    """A path may name another model than the body does."""
    sent = {"model": model, "messages": [], "new_parameter": 1}
    if not refused:
        assert check(path, sent) is False
        return
    with pytest.raises(UnsupportedParameter) as refusal:
        check(path, sent)
    assert refusal.value.param == "new_parameter"
    assert json.dumps(unknown("a\ud800").body(), ensure_ascii=False).encode()


def test_model_list_is_rejected():
    for path, model in ((CHAT, "a,b"), ("/engines/a,b/chat/completions", "c")):
        with pytest.raises(InvalidRequest) as refusal:
            check(path, {"model": model})
        assert refusal.value.param == "model"


def test_check_returns_whether_a_stream_is_requested():
    for stream in (True, False):
        sent = {"model": "m", "messages": [], "stream": stream}
        assert check(CHAT, sent) is stream
        assert check("/v1/embeddings", sent) is False


def test_only_inference_paths_are_checked():
    for path in (CHAT, "/engines/x/chat/completions", "/chat/completions/", "/v1/responses",
                 "/v1/messages", "/v1/embeddings", "/v1/completions/"):  # fmt: skip
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


def fill(gateway: Gateway, owner: str) -> None:
    gateway.here.bodies.add(owner, gateway.here.bodies.limit + SMALL_ROOM)


async def status(gateway: Gateway, key: str | None) -> int:
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
FREED = {
    "value": (chat("x" * SIZE, temperature="hot"), 400, {}),
    "parameter": (chat("x" * SIZE, no_parameter=1), 400, {}),
    "bounds": (chat("x" * SIZE, deep=[[[[]]]] * 10_001), 400, {}),
    "limit of the key": (chat("x" * SIZE), 429, {"tpm": 10}),
}


@pytest.mark.parametrize(("sent", "status", "terms"), FREED.values(), ids=FREED)
async def test_the_body_of_a_refused_request_is_freed_at_once(gateway, sent, status, terms):
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
