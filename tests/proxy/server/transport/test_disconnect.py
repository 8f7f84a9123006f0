"""The work on a request ends when its client disconnects."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from toolgate_proxy.server.transport.connection import Disconnect


class Client:
    """An ASGI client whose body was read; its next messages are sent by `send`."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[Message] = asyncio.Queue()

    def send(self, kind: str) -> None:
        self._messages.put_nowait({"type": kind})

    def leave(self) -> None:
        self.send("http.disconnect")

    async def receive(self) -> Message:
        return await self._messages.get()


@pytest.fixture
def client() -> Client:
    return Client()


def others() -> set[asyncio.Task[object]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


async def test_disconnect_cancels_the_work_without_an_error(client: Client) -> None:
    cleaned_up = False
    async with asyncio.timeout(5):
        async with Disconnect(client.receive) as disconnect:
            try:
                asyncio.get_running_loop().call_later(0.01, client.leave)
                await asyncio.sleep(60)
            finally:
                cleaned_up = True
        assert disconnect.happened
        assert cleaned_up
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0.01)  # the task goes on as any other


async def test_work_finished_before_the_disconnect_is_not_cancelled(client: Client) -> None:
    async with Disconnect(client.receive) as disconnect:
        await asyncio.sleep(0)
    client.leave()
    await asyncio.sleep(0.02)
    assert not disconnect.happened
    assert others() == set()


async def test_other_messages_do_not_cancel_the_work(client: Client) -> None:
    async with Disconnect(client.receive) as disconnect:
        client.send("http.request")
        await asyncio.sleep(0.02)
        assert not disconnect.happened


async def test_disconnect_after_ignore_has_no_effect(client: Client) -> None:
    """The server sends a disconnect after the last message of every response."""
    async with Disconnect(client.receive) as disconnect:
        await asyncio.sleep(0)
        disconnect.ignore()
        client.leave()
        await asyncio.sleep(0.02)
    assert not disconnect.happened


async def test_error_in_the_work_is_raised(client: Client) -> None:
    with pytest.raises(ValueError, match="broken"):
        async with Disconnect(client.receive) as disconnect:
            raise ValueError("broken")
    assert not disconnect.happened
    await asyncio.sleep(0)
    assert others() == set()


async def test_error_during_cancellation_is_raised(client: Client) -> None:
    disconnect = Disconnect(client.receive)

    async def work() -> None:
        async with disconnect:
            try:
                client.leave()
                await asyncio.sleep(60)
            finally:
                raise ValueError("cleanup")

    with pytest.raises(ValueError, match="cleanup"):
        await work()
    assert disconnect.happened
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_disconnect_just_as_the_work_ends_raises_no_error(client: Client) -> None:
    """The disconnect arrives after the work has finished and before its task resumes."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[None] = loop.create_future()
    async with Disconnect(client.receive) as disconnect:
        loop.call_soon(client.leave)
        loop.call_soon(result.set_result, None)
        await result
        await asyncio.sleep(0)
    assert disconnect.happened
    await asyncio.sleep(0.01)


async def test_work_that_handles_the_cancellation_ends_without_an_error(client: Client) -> None:
    async with Disconnect(client.receive) as disconnect:
        client.leave()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(60)
    assert disconnect.happened
    await asyncio.sleep(0)


async def test_work_that_must_end_is_cancelled_behind_it(client: Client) -> None:
    done: list[str] = []
    async with asyncio.timeout(5):
        async with Disconnect(client.receive) as disconnect:
            with disconnect.held():
                client.leave()
                await asyncio.sleep(0.02)
                done.append("held")
            await asyncio.sleep(0)
            done.append("behind")
    assert done == ["held"]
    assert disconnect.happened


async def test_server_cancellation_is_propagated(client: Client) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        async with Disconnect(client.receive):
            entered.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert others() == set()


async def test_server_cancellation_is_propagated_after_a_disconnect(client: Client) -> None:
    cleaning, entered = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        async with Disconnect(client.receive):
            entered.set()
            try:
                await asyncio.sleep(60)
            finally:
                cleaning.set()
                await asyncio.sleep(0.01)

    task = asyncio.create_task(work())
    await entered.wait()
    client.leave()
    await cleaning.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_disconnect_inside_a_timeout_raises_no_timeout_error(client: Client) -> None:
    """Both cancel the task; each takes back its own cancellation."""
    async with asyncio.timeout(5) as limit:
        async with Disconnect(client.receive) as disconnect:
            client.leave()
            await asyncio.sleep(60)
    assert disconnect.happened
    assert not limit.expired()


async def test_timeout_is_not_treated_as_a_disconnect(client: Client) -> None:
    disconnect = Disconnect(client.receive)

    async def work() -> None:
        async with asyncio.timeout(0.01), disconnect:
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await work()
    assert not disconnect.happened
