"""Requests with new tools: one request to the backend, whose response begins with the verdicts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.dialects.model import calls_in
from tests.support.servers.fake_backend import ASKED, KEY, FakeBackend
from tests.support.servers.fleet import tool
from tests.support.servers.loopback import in_thread
from tests.support.servers.round_robin import RoundRobin
from tests.support.servers.script import Script, call
from toolgate_core import wire
from toolgate_core.deltas import ContentDelta
from toolgate_core.errors import (
    BackendFailed,
    InvalidRequest,
    SchemaNotEnforceable,
    ToolgateError,
    ToolSchemaViolation,
)
from toolgate_core.tools import Place, Tool, content_format
from toolgate_proxy.chat.engine import EngineRun
from toolgate_proxy.chat.preparation import Engine
from toolgate_proxy.context import RequestContext
from toolgate_proxy.request.chat_request import ChatRequest
from toolgate_proxy.routing.deployments import Deployments, Placement
from toolgate_proxy.settings import Settings

NUMBERS = itertools.count()
NOT = (wire.ResidualKeyword(pointer="/properties/a/not", keyword="not"),)


def new(name: str = "new", **properties: Any) -> Tool:
    """A tool that no test has had."""
    return tool(f"{name}_{next(NUMBERS)}", **properties)


class Gateway:
    def __init__(self, url: str, **settings: Any) -> None:
        given = Settings(backend_url=url, backend_key=SecretStr(KEY), redis_url=None, **settings)
        self.deployments = Deployments(given)
        self.engine = Engine(given)
        self.context = RequestContext()
        self.deployment = self.deployments.at(Placement("", None, None))

    async def ask(self, *tools: Tool, text: str = ASKED, **params: Any) -> list[Any]:
        """Return the events of the response. Raise the error that its client gets."""
        self.context = RequestContext()
        messages = ({"role": "user", "content": text},)
        request = ChatRequest("chatcmpl-1", "tiny", messages, tools=tools, **params)
        run = EngineRun(self.engine, self.deployment, self.context)
        response, generation = await run.begin(request)
        batches = run.events(response, generation)
        return [each.event async for batch in batches for each in batch]


def content(events: list[Any]) -> str:
    return "".join(each.text for each in events if isinstance(each, ContentDelta))


Start = Callable[..., Gateway]


@pytest.fixture
async def gateway_at() -> AsyncIterator[Start]:
    made = list[Gateway]()

    def start(url: str, **settings: Any) -> Gateway:
        made.append(Gateway(url, **settings))
        return made[-1]

    yield start
    for each in made:
        await each.deployments.aclose()


@pytest.fixture
def gateway(backend: FakeBackend, gateway_at: Start) -> Gateway:
    return gateway_at(backend.url)


def reported(backend: FakeBackend, at: int = -1) -> list[bool]:
    return [each.report for each in backend.requests[at].grammars]


async def test_a_new_tool_takes_one_request(gateway, backend):
    one, two = new(), new()
    for offered, unknown in (((one,), [True]), ((one,), [False]), ((one, two), [False, True])):
        before = len(backend.requests)
        await gateway.ask(*offered)
        assert len(backend.requests) == before + 1
        assert reported(backend) == unknown
        assert gateway.context.notes.has_new_grammars == (True in unknown)
    assert backend.loads == [(one.name,), (two.name,)]


async def test_a_backend_that_was_restarted_loads_what_it_needs(gateway, backend):
    one = new()
    await gateway.ask(one)
    backend.forget()
    await gateway.ask(one)
    assert len(backend.requests) == 2
    assert [source.parameters for source in backend.sources] == [one.parameters] * 2


async def test_a_refused_new_tool_is_an_error_with_its_place(gateway, backend):
    place = "tools[1].function.parameters"
    good, refused = new(), replace(new("refused"), place=Place("tools[1]"))
    for sends in (1, 1):  # the refusal is remembered
        with pytest.raises(SchemaNotEnforceable) as error:
            await gateway.ask(good, refused)
        assert (error.value.param, error.value.pointer) == (place, "/not")
        assert len(backend.requests) == sends
    assert not backend.running


async def test_a_refused_new_format_is_an_error_of_the_format(gateway):
    form = content_format({"not": {}, "title": f"{next(NUMBERS)}"}, param="response_format.schema")
    with pytest.raises(SchemaNotEnforceable) as error:
        await gateway.ask(content_format=form)
    assert error.value.param == "response_format.schema"


async def test_a_refused_new_tool_is_left_out_if_the_settings_omit_it(gateway_at, backend):
    gateway, good, refused = gateway_at(backend.url, invalid_tools="omit"), new(), new("refused")
    await gateway.ask(good, refused)
    assert [backend.callable_tools(at) for at in (0, 1)] == [
        [good.name, refused.name],
        [good.name],
    ]
    assert backend.listed_tools() == [good.name]
    await gateway.ask(good, refused)
    assert len(backend.requests) == 3
    assert backend.callable_tools() == [good.name]


async def test_a_strict_new_tool_that_masks_do_not_enforce_is_refused_before_any_output(
    gateway, backend
):
    """The client gets an error, though the backend has begun the response."""
    strict = replace(new(a={"not": {"type": "string"}}), strict=True)
    backend.residual[strict.name] = NOT
    with pytest.raises(SchemaNotEnforceable) as error:
        await gateway.ask(strict)
    assert "'not' (at /properties/a/not)" in error.value.message
    assert error.value.param == "tools[0].function.parameters"
    assert await backend.idle_within(5)


async def test_a_strict_new_tool_that_masks_do_not_enforce_is_left_out_if_settings_omit_it(
    gateway_at, backend
):
    gateway, good = gateway_at(backend.url, invalid_tools="omit"), new()
    strict = replace(new(a={"not": {"type": "string"}}), strict=True)
    backend.residual[strict.name] = NOT
    await gateway.ask(strict, good)
    assert backend.callable_tools() == [good.name]
    assert len(backend.requests) == 2
    assert await backend.idle_within(5)


@pytest.mark.parametrize("valid", [True, False])
async def test_what_masks_leave_open_in_a_new_tool_is_validated(gateway, backend, valid):
    loose = new(a={"not": {"type": "string"}})
    backend.residual[loose.name] = NOT
    wrong, right = (call(loose.name, {"a": value}) for value in ("text", 7))
    backend.scripts["call"] = Script((wrong,), again=(right if valid else wrong,) * 9)
    if not valid:
        with pytest.raises(ToolSchemaViolation):
            await gateway.ask(loose, text="call")
        return
    events = await gateway.ask(loose, text="call")
    assert gateway.context.notes.resamples == 1
    assert calls_in(events) == [(loose.name, '{"a": 7}')]


@pytest.mark.parametrize("stream", [True, False])
async def test_responses_without_verdicts_are_failures_of_the_backend(gateway, backend, stream):
    backend.silent = True
    with pytest.raises(BackendFailed, match="which grammars"):
        await gateway.ask(new(), stream=stream)
    assert await backend.idle_within(5)


async def test_a_refusal_that_names_no_grammar_is_a_failure_of_the_backend(gateway, backend):
    verdict = {"key": "other", "status": "refused"}
    error = {"message": "No.", "code": "grammars_refused", "verdicts": [verdict]}
    backend.scripts["refused"] = Script(("",), error_status=409, error=error)
    with pytest.raises(BackendFailed, match="which grammars"):
        await gateway.ask(new(), text="refused")
    assert len(backend.requests) == 3


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (Script(("",), error_status=400, error={"message": "No.", "code": "x"}), InvalidRequest),
        (Script(("Hello",), error_after=0), ToolgateError),
        (Script(("Hello",), break_after=0), ToolgateError),
    ],
    ids=["refused", "error event", "connection"],
)
async def test_errors_of_a_response_with_new_tools_are_those_of_others(
    gateway, backend, script, kind
):
    known = new()
    await gateway.ask(known)
    backend.scripts["bad"] = script
    found = list[ToolgateError]()
    for offered in (known, new()):
        with pytest.raises(kind) as raised:
            await gateway.ask(offered, text="bad", stream=True)
        found.append(raised.value)
    assert [(type(each), each.message) for each in found[:1]] == [
        (type(each), each.message) for each in found[1:]
    ]


# --- replicas behind one address ---
@pytest.fixture
def replicas() -> list[FakeBackend]:
    return [FakeBackend(), FakeBackend()]


@pytest.fixture
def address(replicas: list[FakeBackend]) -> Iterator[str]:
    with in_thread(RoundRobin(replicas)) as url:
        yield url


async def test_replicas_behind_one_address_need_one_request_each(gateway_at, replicas, address):
    """New tools and known ones, one after another and together, of two gateways."""
    gateways = [gateway_at(address) for _ in range(2)]
    offered = [new() for _ in range(20)]
    for each in offered[:5]:
        await gateways[0].ask(each)
    together = [gateway.ask(*offered[at : at + 3]) for at in range(18) for gateway in gateways]
    responses = await asyncio.gather(*together)
    assert all(content(each) == "Hello" for each in responses)
    received = [len(each.requests) for each in replicas]
    assert sum(received) == 5 + len(together)
    assert min(received) > 0


async def test_a_tool_that_only_one_replica_has_is_loaded_by_the_other(
    gateway_at, replicas, address
):
    gateway, one = gateway_at(address), new()
    for _ in range(4):
        await gateway.ask(one)
    assert [each.loads for each in replicas] == [[(one.name,)]] * 2
    assert sum(len(each.requests) for each in replicas) == 4
