"""Correctness checks of the demo, and its requests for unconstrained output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from toolgate_proxy.demo import tool_loop
from toolgate_proxy.demo.cases import ChoiceOutput, cases
from toolgate_proxy.demo.run import _satisfies
from toolgate_proxy.demo.unconstrained import unconstrained_output

BEIJING, SHANGHAI = ('{"city": "Beijing"}', '{"city": "Shanghai"}')
CORRECT = {
    "1": ChoiceOutput(calls=[("get_weather", BEIJING), ("get_weather", SHANGHAI)]),
    "2": ChoiceOutput(calls=[("get_weather", BEIJING)]),
    "3": ChoiceOutput(calls=[("get_weather", BEIJING), ("get_weather", SHANGHAI)]),
    "4": ChoiceOutput(content="I may not call a tool now."),
    "5": ChoiceOutput(calls=[("return_json", '{"answer": "Yes", "confidence": 0.9}')]),
    "6": ChoiceOutput(calls=[("set_tags", '{"tags": ["fast", "red", "car"]}')]),
}
WRONG = (
    ChoiceOutput(),
    ChoiceOutput(content="no end"),
    ChoiceOutput(calls=[("get_weather", SHANGHAI)]),
    ChoiceOutput(calls=[("return_json", '{"answer": "no", "confidence": 1}')]),
    ChoiceOutput(calls=[("set_tags", '{"tags": ["a", "b", "c"]}')]),
)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.title)
def test_only_correct_outputs_pass_the_checks(case: Any) -> None:
    assert case.correctness
    correct = CORRECT[case.title[0]]
    assert all(_satisfies(correct, check) for check in case.correctness.values())
    for wrong in WRONG:
        assert not all(_satisfies(wrong, check) for check in case.correctness.values())


def test_response_of_the_tool_loop_must_use_both_results() -> None:
    content = "For Beijing, it is 21 celsius and clear. For Shanghai, it is 25 celsius and cloudy."
    assert tool_loop.uses_results(content)
    assert not tool_loop.uses_results(content.replace("25", "24"))
    assert not tool_loop.uses_results(content.rstrip("."))


@pytest.fixture
def vllm() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            requests.append({"path": self.path, "key": self.headers["authorization"], **body})
            content = "<think>\n\n</think>\n\n<tool_call>x</tool_call><|im_end|>"
            response = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
            self.send_response(200 if body["model"] == "m" else 404)
            self.send_header("content-length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", requests
    server.shutdown()
    server.server_close()


def test_unconstrained_request_has_the_same_prompt_without_enforcement(
    vllm: tuple[str, list[dict[str, Any]]],
) -> None:
    url, requests = vllm
    named = next(case.request for case in cases() if case.title.startswith("5"))
    request = {**named, "temperature": 0, "max_tokens": 9, "parallel_tool_calls": False}
    text = unconstrained_output(url, "secret", "m", request)
    assert text == "<think>\n\n</think>\n\n<tool_call>x</tool_call>"
    [body] = requests
    assert body["path"] == "/v1/chat/completions"
    assert body["key"] == "Bearer secret"
    assert body["messages"] == named["messages"]
    assert body["tools"] == named["tools"]
    assert body["tool_choice"] == "none"
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "parallel_tool_calls" not in body
    assert (body["temperature"], body["max_tokens"]) == (0, 9)


def test_error_responses_of_the_backend_raise(vllm: tuple[str, list[dict[str, Any]]]) -> None:
    with pytest.raises(httpx.HTTPStatusError):
        unconstrained_output(vllm[0], "secret", "another", {"messages": [], "tools": []})
