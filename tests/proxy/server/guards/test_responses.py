"""Hooks and guardrails that refuse, read and change responses, on each API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.apis.outcomes import RANDOM
from tests.support.litellm.fallbacks import APIS, STREAM, ask, shown
from tests.support.litellm.guards import (
    HIDDEN,
    Guardrail,
    Team,
    WholeGuardrail,
    use_callback,
)
from tests.support.litellm.log_events import log_events
from tests.support.litellm.own_route import Gateway
from tests.support.servers.script import Script


def hidden(text: str) -> str:
    return text.replace("Hello", HIDDEN).replace("Hel", HIDDEN[:3]).replace("lo ", "xx ")


def unchanged(text: str) -> str:
    return text.replace("Goodbye", "Hello")


@APIS
@STREAM
async def test_a_response_that_no_hook_changes_is_sent_as_it_was_made(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    without = await ask(gateway, api, stream=stream)
    team = Team()
    use_callback(monkeypatch, team)
    response = await ask(gateway, api, stream=stream)
    assert response.status == 200
    assert RANDOM.sub("-", shown(response)) == RANDOM.sub("-", shown(without))
    assert team.hooks == ["moderation", "stream" if stream else "success"]
    assert not gateway.host.passed


@APIS
async def test_hooks_get_litellms_form_of_a_whole_response(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    team = Team()
    use_callback(monkeypatch, team)
    await ask(gateway, api)
    data, response = team.seen
    kinds = {"chat": "ModelResponse", "responses": "ResponsesAPIResponse", "messages": "dict"}
    assert type(response).__name__ == kinds[api]
    assert "Hello there" in str(response)
    assert data["model"] == "tiny"
    assert "hi" in str(data.get("messages") or data.get("input"))


@APIS
async def test_hooks_get_litellms_form_of_a_stream(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    team = Team()
    use_callback(monkeypatch, team)
    await ask(gateway, api, stream=True)
    kinds = {type(item).__name__ for item in team.seen[1:]}
    expected = {"chat": {"ModelResponseStream"}, "messages": {"bytes"}}
    if api == "responses":
        assert {"ResponseCreatedEvent", "OutputTextDeltaEvent", "ResponseCompletedEvent"} <= kinds
    else:
        assert kinds == expected[api]


@APIS
@STREAM
async def test_a_hook_changes_the_text(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool
) -> None:
    use_callback(monkeypatch, Team(hidden))
    response = await ask(gateway, api, stream=stream)
    assert response.status == 200
    assert "Hel" not in shown(response)
    assert HIDDEN[:3] in shown(response)


@APIS
@STREAM
@pytest.mark.parametrize("hook", ["moderation", "response"])
async def test_a_refused_response_is_not_sent(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool, hook: str
) -> None:
    refuses = hook if hook == "moderation" else "stream" if stream else "success"
    use_callback(monkeypatch, Team(refuses=refuses))
    response = await ask(gateway, api, stream=stream)
    assert response.status == 400
    assert "Not on Mondays." in shown(response)
    assert "Hel" not in shown(response)


@APIS
async def test_a_stream_that_is_refused_later_ends_with_the_error(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    gateway.backend.scripts["hi"] = Script(("Hello there",), pause=0.02)
    use_callback(monkeypatch, Team(refuses="stream", passes=3))
    response = await ask(gateway, api, stream=True)
    assert response.status == 200
    assert response.context.failed
    assert "Not on Mondays." in shown(response)
    assert "there" not in shown(response)


@APIS
@STREAM
@pytest.mark.parametrize("mode", ["pre_call", "during_call", "post_call"])
async def test_guardrail_refuses_in_its_mode(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool, mode: str
) -> None:
    use_callback(monkeypatch, Guardrail(mode))
    response = await ask(gateway, api, stream=stream)
    assert response.status == 400
    assert "Not on Mondays." in shown(response)
    assert "Hel" not in shown(response)
    assert bool(gateway.backend.requests) == (mode != "pre_call")


@APIS
@STREAM
@pytest.mark.parametrize("mode", ["pre_call", "during_call", "post_call"])
async def test_guardrail_runs_for_requests_that_name_it(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str, stream: bool, mode: str
) -> None:
    use_callback(monkeypatch, Guardrail(mode, default_on=False))
    assert (await ask(gateway, api, stream=stream)).status == 200
    named = await ask(gateway, api, stream=stream, guardrails=["no-names"])
    assert named.status == 400
    other = await ask(gateway, api, stream=stream, guardrails=["another"])
    assert other.status == 200


@APIS
async def test_stream_is_held_for_a_guardrail_that_reads_whole_responses(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    """LiteLLM sends the stream, and runs the guardrail for its log."""
    use_callback(monkeypatch, WholeGuardrail())
    refused = await ask(gateway, api, stream=True)
    assert (refused.status, "Not on Mondays." in shown(refused)) == (400, True)
    use_callback(monkeypatch, WholeGuardrail(unchanged))
    assert (await ask(gateway, api, stream=True)).status == 200
    use_callback(monkeypatch, WholeGuardrail(hidden))
    changed = await ask(gateway, api, stream=True)
    assert (changed.status, "without `stream`" in shown(changed)) == (400, True)
    assert (await ask(gateway, api)).status == 200


@APIS
async def test_changed_response_is_logged_as_it_was_sent(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    events = log_events(monkeypatch)
    use_callback(monkeypatch, Team(hidden))
    monkeypatch.setattr("litellm.callbacks", [events, Team(hidden)])
    await ask(gateway, api)
    _, logged = await events.success()
    assert HIDDEN in str(logged)
    assert "Hello" not in str(logged)


async def test_changed_response_is_not_stored(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for change, status in ((None, 200), (hidden, 404)):
        for stream in (True, False):
            use_callback(monkeypatch, Team(change))
            response = await ask(gateway, "responses", stream=stream)
            text = shown(response)
            made = json.loads(text) if not stream else response_in(text)
            path = f"/v1/responses/{made['id']}"
            assert (await gateway.ask(b"", path=path, method="GET")).status == status


def response_in(stream: str) -> Any:
    [line] = [line for line in stream.splitlines() if '"type":"response.completed"' in line]
    return json.loads(line.removeprefix("data: "))["response"]
