"""A reply begins once, is kept alive, has errors in the form of what was sent before them, and ends
when its client disconnects."""

import asyncio
import json

import pytest

from toolgate_core.errors import RateLimited, RequestTimeout
from toolgate_proxy.api.shared.output import COMMENT
from toolgate_proxy.api.surfaces import COMPLETIONS
from toolgate_proxy.context import RequestContext
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.server import connection
from toolgate_proxy.server.connection import Disconnect, Reply

TICK = 0.05
START = "http.response.start"


class Sent(list):
    """The messages that a client was sent."""

    async def __call__(self, message):
        self.append(message)

    @property
    def status(self):
        return int(self[0]["status"])

    @property
    def headers(self):
        return dict(self[0]["headers"])

    @property
    def body(self):
        return b"".join(message.get("body", b"") for message in self)

    @property
    def starts(self):
        return [message["type"] for message in self].count(START)


# --- responses of LiteLLM's app, with comments while they are awaited -----------------------------


def start(status=200):
    return {"type": START, "status": status, "headers": []}


def part(body, *, more=True):
    return {"type": "http.response.body", "body": body, "more_body": more}


async def through(*steps, seconds=TICK, context=None):
    """What a client is sent of an app's messages, and ticks that pass between them."""
    sent, context = Sent(), context or RequestContext()

    async def gate(message):
        if message["type"] == START:
            context.outcome.begin(message["status"])
        await sent(message)

    reply = Reply(gate, context)
    async with reply.kept_alive(seconds):
        for step in steps:
            if isinstance(step, dict):
                await reply.forward(step)
            else:
                await asyncio.sleep(TICK * step)
    return sent


A, B, END = part(b"data: a\n\n"), part(b"data: b\n\n"), part(b"", more=False)


@pytest.mark.parametrize(
    ("steps", "seconds", "status", "body"),
    [
        pytest.param([start(), A, B, END], TICK, 200, b"data: a\n\ndata: b\n\n", id="in time"),
        pytest.param([start(400), part(b"{}"), END], TICK, 400, b"{}", id="error in time"),
        pytest.param([5, start(), part(b"{}"), END], 0.0, 200, b"{}", id="no comments"),
        pytest.param([start(), A, END, 4], TICK, 200, b"data: a\n\n", id="after the end"),
        pytest.param([start(400), 4, part(b"{}", more=False)], TICK, 400, b"{}", id="in an error"),
    ],
)
async def test_no_comment_is_sent_into_a_response_in_time_or_behind_it(
    steps, seconds, status, body
):
    sent = await through(*steps, seconds=seconds)
    assert (sent.status, sent.body, sent.starts) == (status, body, 1)


async def test_idle_stream_starts_with_comments_and_has_some_between_events():
    sent = await through(5, start(), A, 4, B, 4, END)
    assert (sent.status, sent.starts) == (200, 1)
    assert (b"content-type", b"text/event-stream; charset=utf-8") in sent[0]["headers"]
    before, middle, after = sent.body.replace(COMMENT, b"\0").split(b"data: ")
    assert {*before} == {0}
    assert middle.startswith(b"a\n\n\0")
    assert after.startswith(b"b\n\n\0")
    assert sent.body.replace(COMMENT, b"") == b"data: a\n\ndata: b\n\n"


async def test_errors_after_comments_are_events_and_a_failed_app_leaves_no_task():
    body = json.dumps({"error": {"message": "no", "code": "backend_timeout"}}).encode()
    sent = await through(5, start(504), part(body[:9]), part(body[9:]), END)
    assert sent.body.replace(COMMENT, b"") == b"data: " + body + b"\n\n"
    assert not sent[-1].get("more_body")
    # No task is left when the app fails, for example because its client disconnected
    sent = Sent()

    async def fail():
        async with Reply(sent, RequestContext()).kept_alive(TICK):
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await fail()
    await asyncio.sleep(TICK * 3)
    assert sent == []


@pytest.mark.parametrize(("status", "used"), [(503, 0), (200, 60)])
async def test_error_after_a_comment_releases_the_reservation(status, used):
    context = RequestContext()
    context.meter.uncounted = Tokens(20, 40)
    await through(5, start(status), part(b"{}"), END, context=context)
    assert (context.outcome.status, context.meter.used_tokens().total) == (200, used)


# --- errors of our own ----------------------------------------------------------------------------


async def test_an_error_that_comes_first_is_the_response():
    sent, context = Sent(), RequestContext(form=COMPLETIONS)
    reply = Reply(sent, context)
    reply.headers = ((b"x-own", b"1"),)
    await reply.fail(RateLimited("Too many requests.", retry_after=7))
    assert (sent.status, context.outcome.code) == (429, RateLimited.code)
    assert sent.headers[b"retry-after"] == b"7"
    assert sent.headers[b"x-own"] == b"1"
    assert sent.headers[b"content-length"] == str(len(sent.body)).encode()
    assert json.loads(sent.body)["error"]["message"] == "Too many requests."
    assert not sent[-1]["more_body"]
    sent = Sent()
    await Reply(sent, RequestContext()).fail(RequestTimeout("The body did not arrive."))
    assert sent.headers[b"connection"] == b"close"


# --- a client that disconnects --------------------------------------------------------------------


class Client:
    """An ASGI client whose body was read; its next messages are sent by `send`."""

    def __init__(self):
        self._messages = asyncio.Queue()

    def send(self, kind):
        self._messages.put_nowait({"type": kind})

    def leave(self):
        self.send("http.disconnect")

    async def receive(self):
        return await self._messages.get()


@pytest.fixture
def client():
    return Client()


def others():
    """The gateway's tasks. Finalizers of earlier tests' HTTP clients begin others in any loop."""
    codes = ((task, task.get_coro().cr_code) for task in asyncio.all_tasks())
    return {task for task, code in codes if code.co_filename == connection.__file__}


async def test_disconnect_cancels_the_work_without_an_error(client):
    cleaned_up = False
    async with asyncio.timeout(5) as limit:
        async with Disconnect(client.receive) as disconnect:
            try:
                asyncio.get_running_loop().call_later(0.01, client.leave)
                await asyncio.sleep(60)
            finally:
                cleaned_up = True
        assert (disconnect.happened, cleaned_up) == (True, True)
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0.01)  # the task goes on as any other
    assert not limit.expired()


@pytest.mark.parametrize("case", ["ended", "other message", "ignored"])
async def test_work_is_not_cancelled_by_other_messages_or_by_its_own_end(client, case):
    """The server sends a disconnect after the last message of every response."""
    async with Disconnect(client.receive) as disconnect:
        await asyncio.sleep(0)
        if case == "other message":
            client.send("http.request")
        if case == "ignored":
            disconnect.ignore()
            client.leave()
        await asyncio.sleep(0.02)
    client.leave()
    await asyncio.sleep(0.02)
    assert not disconnect.happened
    assert others() == set()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_error_in_the_work_is_raised(client, cancelled):
    disconnect = Disconnect(client.receive)

    async def work():
        async with disconnect:
            try:
                if cancelled:
                    client.leave()
                    await asyncio.sleep(60)
            finally:
                raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await work()
    assert disconnect.happened is cancelled
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0)
    assert others() == set()


async def test_a_disconnect_at_the_end_of_the_work_or_behind_it_raises_no_error(client):
    """The disconnect arrives after the work has finished and before its task resumes."""
    loop = asyncio.get_running_loop()
    result = loop.create_future()
    async with Disconnect(client.receive) as disconnect:
        loop.call_soon(client.leave)
        loop.call_soon(result.set_result, None)
        await result
        await asyncio.sleep(0)
    assert disconnect.happened
    await asyncio.sleep(0.01)
    async with Disconnect(client.receive) as disconnect:
        client.leave()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(60)
    assert disconnect.happened
    await asyncio.sleep(0)
    done = []
    async with asyncio.timeout(5):
        async with Disconnect(client.receive) as disconnect:
            with disconnect.held():
                client.leave()
                await asyncio.sleep(0.02)
                done.append("held")
            await asyncio.sleep(0)
            done.append("behind")
    assert (done, disconnect.happened) == (["held"], True)


@pytest.mark.parametrize("left", [False, True])
async def test_server_cancellation_is_propagated_even_after_a_disconnect(client, left):
    cleaning, entered = asyncio.Event(), asyncio.Event()

    async def work():
        async with Disconnect(client.receive):
            entered.set()
            try:
                await asyncio.sleep(60)
            finally:
                cleaning.set()
                await asyncio.sleep(0.01)

    task = asyncio.create_task(work())
    await entered.wait()
    if left:
        client.leave()
        await cleaning.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert others() == set()


async def test_timeout_is_not_treated_as_a_disconnect(client):
    disconnect = Disconnect(client.receive)

    async def work():
        async with asyncio.timeout(0.01), disconnect:
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await work()
    assert not disconnect.happened
