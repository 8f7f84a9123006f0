"""Replicas behind one address: fingerprints, replicas that leave, and messages of one response that
reach different ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.dialects.model import calls_in
from tests.support.servers.fake_backend import ASKED, INFO, KEY, WITHOUT_MASKS, FakeBackend
from tests.support.servers.fleet import tool
from tests.support.servers.loopback import in_thread
from tests.support.servers.round_robin import RoundRobin
from tests.support.servers.script import Script, call
from toolgate_core import wire
from toolgate_core.deltas import ContentDelta
from toolgate_core.errors import BackendFailed, BackendUnavailable
from toolgate_core.tools import Tool
from toolgate_proxy.backend_client import replicas as replicas_module
from toolgate_proxy.backend_client.replicas import Replicas
from toolgate_proxy.chat.engine import EngineRun as Run
from toolgate_proxy.chat.failover import Failover
from toolgate_proxy.chat.preparation import Engine
from toolgate_proxy.context import RequestContext
from toolgate_proxy.request.chat_request import ChatRequest
from toolgate_proxy.routing.deployments import Deployments, Placement
from toolgate_proxy.routing.health import Health
from toolgate_proxy.settings import Settings

LONGER = INFO.limits.model_copy(update={"max_model_len": 8192})
OTHER = INFO.model_copy(update={"limits": LONGER})
"""The same model, started with another context."""


def request(*tools: Tool, text: str = ASKED, **params: Any) -> ChatRequest:
    messages = ({"role": "user", "content": text},)
    return ChatRequest("chatcmpl-1", "tiny", messages, tools=tools, **params)


class Gateway:
    """A gateway with one address."""

    def __init__(self, url: str) -> None:
        given = Settings(backend_url=url, backend_key=SecretStr(KEY), redis_url=None)
        self.deployments = Deployments(given)
        self.deployment = self.deployments.at(Placement("", None, None))
        self.backend = self.deployment.backend
        self.placement = Placement("tiny", None, None)
        self.health = Health(self.deployments, lambda: [self.placement])
        self.engine = Engine(given)
        self.failover = Failover(self.engine, self.deployments)
        self.context = RequestContext()

    async def ask(self, *tools: Tool, text: str = ASKED, **params: Any) -> list[Any]:
        """Return the events of the response. Raise the error that its client gets."""
        self.context = RequestContext()
        asked = request(*tools, text=text, **params)
        respond = self.failover.respond
        async with respond(asked, self.placement, lambda _: [], self.context) as (_, events):
            return [each.event async for batch in events for each in batch]

    async def text(self, asked: str = ASKED, **params: Any) -> str:
        events = await self.ask(text=asked, **params)
        return "".join(each.text for each in events if isinstance(each, ContentDelta))


@pytest.fixture
def replicas() -> list[FakeBackend]:
    return [FakeBackend(), FakeBackend()]


@pytest.fixture
def router(replicas: list[FakeBackend]) -> RoundRobin:
    return RoundRobin(replicas)


@pytest.fixture
def url(router: RoundRobin) -> Iterator[str]:
    with in_thread(router) as address:
        yield address


@pytest.fixture
async def gateway(url: str) -> AsyncIterator[Gateway]:
    made = Gateway(url)
    yield made
    await made.deployments.aclose()


async def met(gateway: Gateway, replicas: list[FakeBackend]) -> None:
    """The gateway has had a response of each replica."""
    for _ in replicas:
        await gateway.health.probe_all()
    assert gateway.deployment.backend.replicas.count == len(replicas)


def names(replicas: list[FakeBackend]) -> list[str]:
    return sorted(each.replica for each in replicas)


# --- fingerprints ---


MARKS = INFO.marks.tokens
REORDERED = INFO.marks.model_copy(update={"tokens": dict(reversed(MARKS.items()))})


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"limits": LONGER}, False),
        ({"tokenizer": "other"}, False),
        ({"model": "other"}, False),
        ({"dialect": "hermes"}, False),
        ({"grammar_format": "2"}, False),
        ({"marks": wire.MarkIds(tokens={"<tool_call>": 9})}, False),
        ({"images": True}, False),
        ({"marks": REORDERED}, True),  # processes find them in different orders
        ({"in_flight": 3, "replica": "b", "vllm_version": "1.0"}, True),
        ({"models": ("tiny", "an adapter")}, True),
    ],
)
def test_the_fingerprint_covers_what_a_gateway_relies_on(changed, same):
    other = wire.fingerprint_of(INFO.model_copy(update=changed))
    assert (other == wire.fingerprint_of(INFO)) is same


async def test_a_backend_that_was_restarted_with_other_limits_gets_a_new_message(gateway, replicas):
    assert await gateway.text() == "Hello"
    for each in replicas:
        each.info = OTHER
    assert await gateway.text() == "Hello"
    assert (await gateway.backend.info()).limits == LONGER


async def test_replicas_that_differ_are_an_error_that_names_the_cause(
    gateway, replicas, router, caplog
):
    """No response of a replica with other limits is sent, and the number of attempts is bounded."""
    replicas[1].info = OTHER
    await met(gateway, replicas)
    found = list[object]()
    for _ in range(12):
        gateway.backend.forget_info()
        before = router.sent
        try:
            found.append(await gateway.text())
        except BackendUnavailable as error:
            found.append(error.message)
        assert router.sent - before <= 8
    refused = [each for each in found if each != "Hello"]
    assert refused, found
    assert all("replicas behind one address of this model differ" in str(each) for each in refused)
    assert caplog.text.count("differ, so requests may fail") == 1
    replicas[1].info = INFO
    gateway.backend.forget_info()
    assert await gateway.text() == "Hello"


MESSAGES: dict[str, Callable[[Gateway], Awaitable[object]]] = {
    "count": lambda to: to.failover.count(request(), to.placement, lambda _: [], to.context),
    "unconstrained": lambda to: Run(to.engine, to.deployment, to.context).unconstrained(request()),
    "grammars": lambda to: to.deployment.grammars.prepare([tool("t")]),
}
"""What sends the other messages with a fingerprint."""


@pytest.mark.parametrize("name", MESSAGES)
async def test_every_message_is_made_anew_for_a_replica_with_another_description(
    gateway, replicas, router, name
):
    for each in replicas:
        each.scripts |= dict.fromkeys((ASKED, ASKED + WITHOUT_MASKS), Script(("Hello",)))
    await gateway.text()
    for each in replicas:
        each.info = OTHER
    before = router.sent
    await MESSAGES[name](gateway)
    assert router.sent - before == 3, "refused, described, answered"
    assert (await gateway.backend.info()).limits == LONGER


# --- routers that write bodies anew ---


async def test_the_first_message_may_be_any(gateway, replicas, router):
    router.rewrites = True
    await gateway.deployment.grammars.prepare([tool("t")])
    assert router.sent == 4, "described, refused, described, loaded"


async def test_schemas_are_the_same_behind_a_router_that_sorts_members(gateway, replicas, router):
    """Only the first message is sent twice: those after it have a form that no router changes."""
    router.rewrites = True
    given = {"z": {"enum": [2**70, 1.5]}, "a": {"type": "string"}}
    for number in range(6):
        await gateway.ask(tool(f"t{number}", **given), stream=number % 2 == 0)
    for at, replica in enumerate(replicas):
        assert len(replica.requests) == 3, at
        for source in replica.sources:
            assert json.dumps(source.parameters["properties"]) == json.dumps(given)
        for asked in replica.requests:
            [shown] = asked.prompt.tools
            assert json.dumps(shown["function"]["parameters"]["properties"]) == json.dumps(given)
    assert router.sent == 9, "described, refused, described, 6 responses"


# --- identities ---


async def test_replicas_are_known_by_their_responses(gateway, replicas):
    """Those of probes, and those of requests."""
    assert gateway.deployment.backend.replicas.seen() == []
    await met(gateway, replicas)
    seen = gateway.deployment.backend.replicas.seen()
    assert [each.name for each in seen] == names(replicas)
    assert {each.fingerprint for each in seen} == {wire.fingerprint_of(INFO)}
    made = Replicas("http://a")
    for name in ("r", ""):
        made.note(wire.StartEvent(prompt_tokens=1, reasoning_open=False, replica=name))
    assert [each.name for each in made.seen()] == ["r"]


def test_a_replica_is_forgotten_when_it_does_not_respond(monkeypatch):
    made = Replicas("http://a")
    made.note(INFO.model_copy(update={"replica": "a"}))
    monkeypatch.setattr(replicas_module, "MEMORY", -1.0)
    assert (made.seen(), made.count) == ([], 0)
    made.note(INFO.model_copy(update={"replica": "a"}))
    assert made.joined == 1, "it is not new when it responds again"


def test_the_number_of_replicas_is_bounded(monkeypatch):
    monkeypatch.setattr(replicas_module, "MAX_REPLICAS", 3)
    made = Replicas("http://a")
    for name in "abcab":
        made.note(INFO.model_copy(update={"replica": name}))
    assert made.joined == 3
    made.note(INFO.model_copy(update={"replica": "d"}))
    assert [each.name for each in made.seen()] == ["a", "b", "d"], "c was not heard for longest"


async def test_the_load_of_an_address_is_that_of_all_replicas(gateway, replicas):
    for each in replicas:
        each.info = INFO.model_copy(update={"in_flight": 7})
    await met(gateway, replicas)
    assert gateway.deployment.load.total == 14


# --- replicas that leave ---


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_for_a_replica_that_left_reaches_another_one(
    gateway, replicas, router, status, stream
):
    await met(gateway, replicas)
    router.left[replicas[0].replica] = status
    for _ in range(6):
        assert await gateway.text(stream=stream) == "Hello"
    assert len(replicas[1].requests) == 6
    await gateway.health.probe_all()
    assert gateway.deployment.state.up


@pytest.mark.parametrize("fault", [{"break_after": 0}, {"error_status": 503}], ids=["cut", "full"])
async def test_a_request_whose_replica_fails_before_any_output_reaches_another_one(
    gateway, replicas, fault
):
    full = {"message": "Full.", "code": "backend_unavailable"}
    replicas[0].scripts["go"] = Script(("Hello",), error=full, **fault)
    replicas[1].scripts["go"] = Script(("Hello",))
    await met(gateway, replicas)
    for _ in range(4):
        assert await gateway.text("go", stream=True) == "Hello"
    assert len(replicas[1].requests) == 4
    assert replicas[0].requests


async def test_a_request_that_every_replica_fails_is_sent_to_two(gateway, replicas):
    """It may be what makes them fail."""
    for each in replicas:
        each.scripts["go"] = Script(("Hello",), break_after=0)
    await met(gateway, replicas)
    with pytest.raises(BackendFailed):
        await gateway.text("go", stream=True)
    assert sum(len(each.requests) for each in replicas) == 2


async def test_output_is_not_repeated_after_a_stream_was_cut(gateway, replicas):
    for each in replicas:
        each.scripts["go"] = Script(("Hello there",), break_after=2)
    await met(gateway, replicas)
    with pytest.raises(BackendFailed):
        await gateway.text("go", stream=True)
    assert sum(len(each.requests) for each in replicas) == 1


@pytest.mark.parametrize("runs_calls", [False, True])
async def test_a_whole_response_that_was_cut_is_generated_again(gateway, replicas, runs_calls):
    """Its client has got nothing. Calls that the gateway ran would run twice."""
    replicas[0].scripts["go"] = Script(("Hello there",), break_after=2)
    replicas[1].scripts["go"] = Script(("Hello",))
    await met(gateway, replicas)
    more = {"gateway_tools": {"search": None}} if runs_calls else {}
    found = list[str]()
    for _ in range(4):
        try:
            found.append(await gateway.text("go", stop=("never",), **more))
        except BackendFailed:
            found.append("cut")
    assert found.count("cut") == (2 if runs_calls else 0)
    assert found.count("Hello") == (2 if runs_calls else 4)


async def test_an_address_is_down_when_no_replica_responds(gateway, replicas, router):
    await met(gateway, replicas)
    state = gateway.deployment.state
    router.left = dict.fromkeys(names(replicas), 503)
    await gateway.health.probe_all()
    assert state.up, "one failed probe"
    state.note_response()
    await gateway.health.probe_all()
    assert state.up, "a request succeeded meanwhile"
    await gateway.health.probe_all()
    assert not state.up
    router.left.clear()
    await gateway.health.probe_all()
    assert state.up
    router.left = dict.fromkeys(names(replicas), 502)
    with pytest.raises(BackendFailed):
        await gateway.text()
    assert state.up
    router.left.clear()
    assert await gateway.text() == "Hello"
    assert state.failures == 0


# --- messages of one response at different replicas ---


async def test_a_choice_is_sampled_again_at_another_replica(gateway, replicas):
    loose = tool("pick", a={"not": {"type": "string"}})
    residual = (wire.ResidualKeyword(pointer="/properties/a/not", keyword="not"),)
    wrong, right = (call("pick", {"a": value}) for value in ("text", 7))
    for each in replicas:
        each.residual["pick"] = residual
        each.scripts["call"] = Script((wrong,), again=(right,))
    await met(gateway, replicas)
    for _ in range(4):
        events = await gateway.ask(loose, text="call")
        assert calls_in(events) == [("pick", '{"a": 7}')]
        assert gateway.context.notes.resamples == 1
    continued = [[bool(each.accepted) for each in replica.requests] for replica in replicas]
    assert sorted(continued) == [[False] * 4, [True] * 4]


async def test_counts_are_those_of_any_replica(gateway, replicas):
    for each in replicas:
        each.scripts["hi"] = Script(("Hello",))
    prompt = wire.ChatPrompt(messages=({"role": "user", "content": "hi"},))
    for _ in range(2):
        assert await gateway.backend.count(wire.CountTokens(model="tiny", prompt=prompt)) == 11
    assert sum(len(each.counts) for each in replicas) == 2


async def test_abandoned_responses_end_at_their_replicas(gateway, replicas):
    for each in replicas:
        each.scripts["hang"] = Script(("Hello there",), hang_after=2)
    waiting = [asyncio.create_task(gateway.text("hang", stream=True)) for _ in range(4)]
    async with asyncio.timeout(20):
        while sum(each.running for each in replicas) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert all([await each.idle_within(10) for each in replicas])
    assert [len(each.left) for each in replicas] == [2, 2]
