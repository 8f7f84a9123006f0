"""What the gateway's own route does alike for all three APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import litellm
import pytest
from litellm.litellm_core_utils.litellm_logging import Logging

from tests.support.apis.messages_api import check_error
from tests.support.apis.responses_api import check_event
from tests.support.litellm.log_events import AFTERWARDS, log_events
from tests.support.litellm.own_route import PATHS, TICK, Gateway, body_of, ours
from tests.support.litellm.router import use
from tests.support.servers.script import Script
from tests.support.waiting import until
from toolgate_proxy.api.surfaces import SURFACES

KEEP_ALIVE = {api: surface.keep_alive for api, surface in zip(PATHS, SURFACES, strict=True)}
CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "chat": lambda _: None,
    "responses": check_event,
    "messages": check_error,
}
"""What the SDK of an API accepts as the event of an error."""


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", PATHS)
async def test_the_backend_stops_when_the_client_leaves(
    gateway: Gateway, api: str, stream: bool
) -> None:
    gateway.backend.scripts["hang"] = Script(("Hello there",), hang_after=2)
    body = body_of(api, "hang", stream=stream)
    response = await gateway.ask(body, path=PATHS[api], leave_after=0.3)
    assert await gateway.backend.idle_within(2)
    assert not response.context.complete
    if not stream:
        assert response.messages == []


@pytest.mark.parametrize("api", PATHS)
async def test_failure_is_logged_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    logged_events = log_events(monkeypatch)
    response = await gateway.ask(body_of(api, temperature="hot"), path=PATHS[api])
    assert (await logged_events.failure()).status_code == response.status == 400


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", PATHS)
async def test_loggers_in_threads_run_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    """Some of LiteLLM's loggers are not async, such as Langfuse's."""
    seen: list[str] = []

    def note(logging: Logging, *_: Any, **__: Any) -> None:
        seen.append(logging.litellm_call_id)

    monkeypatch.setattr(Logging, "success_handler", note)
    monkeypatch.setattr(litellm, "success_callback", ["promptlayer"])
    response = await gateway.ask(body_of(api, stream=stream), path=PATHS[api])
    await until(lambda: seen)
    await asyncio.sleep(AFTERWARDS)
    assert seen == [response.context.call_id]


@pytest.mark.parametrize("api", ["chat", "messages"])
async def test_the_usage_of_a_stream_has_its_cost_if_litellm_adds_it(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    prices = {"input_cost_per_token": 0.5, "output_cost_per_token": 0.25}
    for name, known in list(litellm.model_cost.items()):
        if "id" in known or name == "toolgate/tiny":  # prices of other tests' rows
            monkeypatch.delitem(litellm.model_cost, name)
    use(monkeypatch, ours(gateway.backend, **prices))
    body = body_of(api, stream=True)
    if api == "chat":
        body["stream_options"] = {"include_usage": True}
    for asked in (True, False):
        monkeypatch.setattr(litellm, "include_cost_in_streaming_usage", asked)
        response = await gateway.ask(body, path=PATHS[api])
        assert response.status == 200
        [*_, usage] = [event["usage"] for event in response.events if event.get("usage")]
        tokens = usage.get("completion_tokens", usage.get("output_tokens"))
        assert usage.get("cost") == (pytest.approx(11 * 0.5 + tokens * 0.25) if asked else None)


@pytest.mark.parametrize("api", ["responses", "messages"])
async def test_defaults_of_a_deployment_apply(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    use(monkeypatch, ours(gateway.backend, max_tokens=7, temperature=0.25, n=2, stop="x"))
    body = body_of(api)
    body.pop("max_tokens", None)
    response = await gateway.ask(body, path=PATHS[api])
    assert response.status == 200
    sampling = gateway.backend.requests[-1].sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.n) == (7, 0.25, 1)
    if api == "responses":
        assert response.json["max_output_tokens"] == 7


@pytest.mark.parametrize("api", PATHS)
async def test_an_error_in_a_stream_is_its_last_event(gateway: Gateway, api: str) -> None:
    gateway.backend.scripts["breaks"] = Script(("Hello there you",), error_after=3, pause=0.02)
    response = await gateway.ask(body_of(api, "breaks", stream=True), path=PATHS[api])
    assert response.status == 200
    *before, last = response.events
    assert before
    assert last.get("response", last)["error"]["code"] == "enforcement_failed"
    CHECKS[api](last)
    assert b"[DONE]" not in b"".join(response.bodies)
    assert not response.messages[-1]["more_body"]
    assert response.context.failed
    assert response.context.error_code == "enforcement_failed"


@pytest.mark.parametrize("api", PATHS)
async def test_an_error_after_a_keep_alive_is_an_event(gateway: Gateway, api: str) -> None:
    gateway.backend.scripts["late"] = Script(("x",), error_after=0, queued=TICK * 6)
    response = await gateway.ask(body_of(api, "late", stream=True), path=PATHS[api])
    assert (response.status, response.bodies[0]) == (200, KEEP_ALIVE[api])
    event, *failed = (each for each in response.events if each.get("type") != "ping")
    assert event["error"]["code"] == "enforcement_failed"
    CHECKS[api](event)
    assert [each["type"] for each in failed] == ["response.failed"] * (api == "responses")
    if api == "messages":
        assert event["request_id"] == response.context.request_id
    assert response.context.failed
