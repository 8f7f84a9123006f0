"""`toolgate chat` with a scripted gateway."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from toolgate_proxy.cli.main import app
from toolgate_proxy.settings import settings

KEY = "sk-chat"
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


class Gateway:
    """Answers each chat completion with the next of `answers`: chunks, or a status and an error."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                allowed = self.headers["Authorization"] == f"Bearer {KEY}"
                self.send_response(200 if allowed and self.path == "/v1/models" else 401)
                self.end_headers()
                self.wfile.write(json.dumps({"data": [{"id": "m"}]}).encode())

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                gateway.requests.append(json.loads(self.rfile.read(length)))
                answer = gateway.answers.pop(0)
                status = 200 if isinstance(answer, list) else answer[0]
                self.send_response(status)
                self.end_headers()
                if status != 200:
                    self.wfile.write(answer[1].encode())
                    return
                for chunk in answer:
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.write(b": keep-alive\n\ndata: [DONE]\n\n")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def chat(gateway: Gateway, text: str, *options: str, key: str = KEY) -> Result:
    command = ["chat", "--url", gateway.url, "--key", key, *options]
    return CliRunner().invoke(app, command, input=text)


def test_calls_run_and_their_results_are_sent_back(gateway: Gateway) -> None:
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


def test_turns_continue_the_conversation_until_a_new_one(gateway: Gateway) -> None:
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
    answer: Any, message: str, gateway: Gateway
) -> None:
    gateway.answers = [answer, ANSWER]
    result = chat(gateway, "a\nb\n")
    assert result.exit_code == 1
    assert message in result.stderr
    assert [each["content"] for each in gateway.requests[1]["messages"]] == ["b"]


def test_a_call_that_is_cut_does_not_run(gateway: Gateway) -> None:
    gateway.answers = [[*CALLS[:4], delta("length")]]
    result = chat(gateway, "a\n")
    assert result.exit_code == 0, result.output
    assert "max_tokens is reached" in result.stdout
    assert "←" not in result.stdout
    assert len(gateway.requests) == 1


def test_a_model_that_only_calls_tools_is_stopped(gateway: Gateway) -> None:
    gateway.answers = [CALLS] * 20
    result = chat(gateway, "a\n")
    assert result.exit_code == 1
    assert len(gateway.requests) == 8


def test_a_gateway_that_does_not_answer_is_an_error(gateway: Gateway) -> None:
    result = chat(gateway, "a\n", key="sk-wrong")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "401" in result.stderr
    assert "sk-wrong" not in result.stderr


def test_without_a_key_the_option_is_named(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TOOLGATE_MASTER_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings.cache_clear()
    result = CliRunner().invoke(app, ["chat", "--url", gateway.url])
    settings.cache_clear()
    assert result.exit_code == 2
    assert "--key" in result.stderr
