"""`toolgate chat` with a scripted gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from toolgate_proxy.cli.main import app

from .conftest import ScriptedGateway

CALL = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "calculate", "arguments": ""},
}


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def arguments(text: str) -> dict[str, Any]:
    return delta(tool_calls=[{"index": 0, "function": {"arguments": text}}])


CALLS = [
    delta(role="assistant", content=None),
    delta(reasoning_content="Hm."),
    delta(tool_calls=[CALL]),
    arguments('{"expression": '),
    arguments('"17 * 23"}'),
    delta("tool_calls"),
    {"choices": [], "usage": {}},
]
ANSWER = [delta(content="It is "), delta(content="391."), delta("stop")]


def chat(gateway: ScriptedGateway, text: str, *options: str, key: str = "") -> Result:
    command = ["chat", "--url", gateway.url, "--key", key or gateway.key, *options]
    return CliRunner().invoke(app, command, input=text)


def test_calls_run_and_their_results_are_sent_back(gateway: ScriptedGateway) -> None:
    gateway.answers = [CALLS, ANSWER]
    result = chat(gateway, "What is 17 * 23?\n", "--system", "Be brief.", "--effort", "low")
    assert result.exit_code == 0, result.output
    assert result.stdout.split("\n") == [
        "Hm.",
        '→ calculate {"expression": "17 * 23"}',
        '← {"result": 391}',
        "It is 391.",
        "",
    ]
    first, second = gateway.requests
    assert first["model"] == "m"
    assert first["reasoning_effort"] == "low"
    assert [tool["function"]["name"] for tool in first["tools"]] == [
        "get_current_time",
        "calculate",
    ]
    assert [each["role"] for each in first["messages"]] == ["system", "user"]
    called, given = second["messages"][2:]
    assert called["reasoning_content"] == "Hm."
    assert called["tool_calls"][0]["function"]["arguments"] == '{"expression": "17 * 23"}'
    assert given == {"role": "tool", "tool_call_id": "call_1", "content": '{"result": 391}'}


def test_turns_continue_the_conversation_until_a_new_one(gateway: ScriptedGateway) -> None:
    gateway.answers = [ANSWER, ANSWER, ANSWER]
    result = chat(gateway, "a\n\nb\n/new\nc\n/quit\nd\n", "--no-tools")
    assert result.exit_code == 0, result.output
    said = [[each["content"] for each in request["messages"]] for request in gateway.requests]
    assert said == [["a"], ["a", "It is 391.", "b"], ["c"]]
    assert all("tools" not in request for request in gateway.requests)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((400, '{"error": {"message": "No such thing."}}'), "No such thing."),
        ((502, "bad gateway"), "HTTP status 502: bad gateway"),
        ([delta(content="It"), {"error": {"message": "The backend is gone."}}], "is gone."),
    ],
)
def test_a_failed_turn_is_an_error_and_is_forgotten(
    answer: Any, message: str, gateway: ScriptedGateway
) -> None:
    gateway.answers = [answer, ANSWER]
    result = chat(gateway, "a\nb\n")
    assert result.exit_code == 1
    assert message in result.stderr
    assert [each["content"] for each in gateway.requests[1]["messages"]] == ["b"]


def test_a_call_that_is_cut_does_not_run(gateway: ScriptedGateway) -> None:
    gateway.answers = [[*CALLS[:4], delta("length")]]
    result = chat(gateway, "a\n")
    assert result.exit_code == 0, result.output
    assert "max_tokens is reached" in result.stdout
    assert "←" not in result.stdout
    assert len(gateway.requests) == 1


def test_a_model_that_only_calls_tools_is_stopped(gateway: ScriptedGateway) -> None:
    gateway.answers = [CALLS] * 20
    result = chat(gateway, "a\n")
    assert result.exit_code == 1
    assert len(gateway.requests) == 8


def test_a_gateway_that_does_not_answer_is_an_error(gateway: ScriptedGateway) -> None:
    result = chat(gateway, "a\n", key="sk-wrong")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "401" in result.stderr
    assert "sk-wrong" not in result.stderr


def test_without_a_key_the_option_is_named(
    gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TOOLGATE_MASTER_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["chat", "--url", gateway.url])
    assert result.exit_code == 2
    assert "--key" in result.stderr
