"""Token streams of a real backend (scripts/record_streams.py), cut at every place: whatever arrives
together, the streamed answer is the whole one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from read_answers import collected, of_whole
from told_answers import shaped

from toolgate_core import wire
from toolgate_proxy.api.chat_completions.request import admit

RECORDED = json.loads((Path(__file__).parent / "recorded_streams.json").read_text())
INFO = wire.Info.model_validate(RECORDED["info"])
STREAMS: dict[str, dict[str, Any]] = {each["name"]: each for each in RECORDED["streams"]}
USER = [{"role": "user", "content": "What is the weather?"}]


@pytest.mark.parametrize("stop", [(), ("a", "},")], ids=["", "stop strings"])
@pytest.mark.parametrize("name", STREAMS)
def test_every_split_gives_the_same_answer(name: str, stop: tuple[str, ...]) -> None:
    recorded = STREAMS[name]
    request = replace(admit("tiny", USER, recorded["params"], stream=True), stop=stop)
    told = wire.stream_events.validate_python(recorded["events"])
    chunks, whole = shaped(request, told, [], INFO)
    expected = collected(chunks)
    assert expected == of_whole(whole)
    for cuts in [[cut] for cut in range(len(told))] + [[*range(len(told))]]:
        chunks, whole = shaped(request, told, cuts, INFO)
        assert collected(chunks) == of_whole(whole) == expected


def test_the_recording_holds_what_it_should() -> None:
    """Calls, reasoning, logprobs, more than one choice, characters of several bytes."""
    found = [
        choice
        for each in STREAMS.values()
        for choice in collected(
            shaped(
                admit("tiny", USER, each["params"], stream=True),
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
