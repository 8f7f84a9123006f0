"""The shutdown of a backend: in the order of vLLM's own calls, with a client that records them.
`python -m tests.long rolling` shows the same with real servers."""

from __future__ import annotations

import asyncio

import pytest

from toolgate_backend.adapters.lifetimes import before_shutdown


class Client:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def shutdown(self, timeout: float | None = None) -> None:
        self.calls.append(f"shutdown {timeout}")


@pytest.mark.parametrize(("limit", "waited"), [(30.0, "30.0"), (None, "0.0")])
async def test_new_requests_are_refused_and_active_ones_finish_first(
    limit: float | None, waited: str
) -> None:
    client = Client()
    before_shutdown(
        client,
        lambda: client.calls.append("refuse"),
        lambda seconds: client.calls.append(f"wait {seconds}"),
    )
    await asyncio.to_thread(client.shutdown, limit)
    assert client.calls == ["refuse", f"wait {waited}", f"shutdown {limit}"]


async def test_the_event_loop_is_not_blocked() -> None:
    client = Client()
    before_shutdown(client, lambda: None, lambda _: client.calls.append("wait"))
    client.shutdown(timeout=30)
    assert client.calls == ["shutdown 30"]
