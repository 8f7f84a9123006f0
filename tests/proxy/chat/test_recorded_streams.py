"""Token streams of a real backend (scripts/record_streams.py), cut at every place: the streamed
response equals the whole one, whatever arrives together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.apis.chat_events import responses
from tests.support.apis.read_responses import collected, of_whole
from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_proxy.api.chat_completions.request import parse_request

RECORDED = json.loads((Path(__file__).parent / "recorded_streams.json").read_text())
INFO = wire.Info.model_validate(RECORDED["info"])
STREAMS: dict[str, dict[str, Any]] = {each["name"]: each for each in RECORDED["streams"]}
USER = [{"role": "user", "content": "What is the weather?"}]


def parsed(params: dict[str, Any]) -> ChatRequest:
    return parse_request({"messages": USER, "stream": True, **params}, model="tiny")


@pytest.mark.parametrize("stop", [(), ("a", "},")], ids=["", "stop strings"])
@pytest.mark.parametrize("name", STREAMS)
def test_every_split_of_the_stream_gives_the_same_response(
    name: str, stop: tuple[str, ...]
) -> None:
    recorded = STREAMS[name]
    request = replace(parsed(recorded["params"]), stop=stop)
    sent = wire.stream_events.validate_python(recorded["events"])
    chunks, whole = responses(request, sent, [], INFO)
    expected = collected(chunks)
    assert expected == of_whole(whole)
    for cuts in [[cut] for cut in range(len(sent))] + [[*range(len(sent))]]:
        chunks, whole = responses(request, sent, cuts, INFO)
        assert collected(chunks) == of_whole(whole) == expected


def test_recorded_streams_contain_calls_reasoning_logprobs_and_choices() -> None:
    """Calls, reasoning, logprobs, more than one choice, characters of several bytes."""
    found = [
        choice
        for each in STREAMS.values()
        for choice in collected(
            responses(
                parsed(each["params"]),
                wire.stream_events.validate_python(each["events"]),
                [],
                INFO,
            )[0]
        ).values()
    ]
    assert any(choice["calls"] for choice in found)
    assert any(choice["reasoning"] for choice in found)
    assert any(choice["logprobs"] for choice in found)
    assert any(not (choice["content"] or "").isascii() for choice in found)
    assert len(found) > len(STREAMS)
