"""Grammars of deferred tools, loaded before a conversation adds the tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.servers.fake_backend import INFO, KEY, FakeBackend
from tests.support.waiting import until
from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.tools import OnInvalid, Tool, parse_tools
from toolgate_core.toolset import PREPARED
from toolgate_proxy.chat.constraints import DeferredGrammars
from toolgate_proxy.routing.deployments import Deployment, Deployments
from toolgate_proxy.settings import Settings
from toolgate_proxy.stack.processes import free_port

USER, ASSISTANT = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hi"}


@pytest.fixture
async def deployment(backend: FakeBackend) -> AsyncIterator[Deployment]:
    backend.forget()
    deployments = Deployments(
        Settings(backend_url=backend.url, backend_key=SecretStr(KEY), redis_url=None)
    )
    yield deployments.get(None, None)
    await deployments.aclose()


def parsed(name: str, parameters: dict[str, Any], on_invalid: OnInvalid) -> Tool | None:
    function = {"name": name, "parameters": parameters}
    found = parse_tools([{"type": "function", "function": function}], on_invalid=on_invalid)
    return found[0] if found else None


def asked(names: Sequence[str], *messages: dict[str, Any], **schemas: Any) -> ChatRequest:
    tools = [partial(parsed, name, schemas.get(name, {"title": name})) for name in names]
    return ChatRequest("x", "tiny", messages or (USER,), deferred_tools=tuple(tools))


def info(max_grammars: int) -> wire.Info:
    limits = INFO.limits.model_copy(update={"max_grammars": max_grammars})
    return INFO.model_copy(update={"limits": limits})


NAMES = [f"tool_{at}" for at in range(100)]


async def test_the_first_valid_tools_are_loaded(backend, deployment):
    request = asked(NAMES, tool_3={"type": "nothing"})
    DeferredGrammars().begin(request, deployment, info(2048))
    expected = [name for name in NAMES[:PREPARED] if name != "tool_3"]
    await until(lambda: len(backend.loaded) == len(expected))
    assert [name for load in backend.loads for name in load] == expected
    assert len(backend.loads) > 1, "grammars of requests are loaded in between"


async def test_half_of_the_room_is_left(backend, deployment):
    deferred = DeferredGrammars()
    deferred.begin(asked(NAMES), deployment, info(64))
    await until(lambda: not deferred._busy)
    assert len(backend.loaded) == 32


async def test_only_the_beginning_of_a_conversation_loads_them(backend, deployment):
    deferred = DeferredGrammars()
    deferred.begin(asked(NAMES, USER, ASSISTANT, USER), deployment, info(2048))
    assert not deferred._busy
    assert not backend.loads


async def test_one_conversation_at_a_time(backend, deployment):
    deferred = DeferredGrammars()
    backend.load_pause = 0.1
    for name in ("first", "second"):
        deferred.begin(asked([name]), deployment, info(2048))
    await until(lambda: not deferred._busy)
    deferred.begin(asked(["third"]), deployment, info(2048))
    await until(lambda: not deferred._busy)
    assert backend.loads == [("first",), ("third",)]


async def test_only_grammars_that_are_not_known_are_loaded(backend, deployment):
    deferred = DeferredGrammars()
    for names in (["first"], ["first", "second"], ["second"]):
        deferred.begin(asked(names), deployment, info(2048))
        await until(lambda: not deferred._busy)
    assert backend.loads == [("first",), ("second",)]


async def test_the_failure_of_a_backend_has_no_consequence(caplog):
    deployments, deferred = Deployments(Settings(redis_url=None)), DeferredGrammars()
    down = deployments.get(f"http://127.0.0.1:{free_port()}", KEY)
    deferred.begin(asked(NAMES), down, info(2048))
    assert deferred._busy
    await until(lambda: not deferred._busy)
    await deployments.aclose()
    assert not caplog.records
