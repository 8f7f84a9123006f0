"""What the demo calls true, and what it asks of vLLM without enforcement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from toolgate_proxy.demo import tool_loop
from toolgate_proxy.demo.cases import Answer, cases
from toolgate_proxy.demo.run import _holds
from toolgate_proxy.demo.unconstrained import alone

BEIJING, SHANGHAI = ('{"city": "Beijing"}', '{"city": "Shanghai"}')
RIGHT = {
    "1": Answer(calls=[("get_weather", BEIJING), ("get_weather", SHANGHAI)]),
    "2": Answer(calls=[("get_weather", BEIJING)]),
    "3": Answer(calls=[("get_weather", BEIJING), ("get_weather", SHANGHAI)]),
    "4": Answer(content="I may not call a tool now."),
    "5": Answer(calls=[("return_json", '{"answer": "Yes", "confidence": 0.9}')]),
    "6": Answer(calls=[("set_tags", '{"tags": ["fast", "red", "car"]}')]),
}
WRONG = (
    Answer(),
    Answer(content="no end"),
    Answer(calls=[("get_weather", SHANGHAI)]),
    Answer(calls=[("return_json", '{"answer": "no", "confidence": 1}')]),
    Answer(calls=[("set_tags", '{"tags": ["a", "b", "c"]}')]),
)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.title)
def test_truth_tells_right_from_wrong(case: Any) -> None:
    assert case.truth
    right = RIGHT[case.title[0]]
    assert all(_holds(holds, right) for holds in case.truth.values())
    for wrong in WRONG:
        assert not all(_holds(holds, wrong) for holds in case.truth.values())


def test_the_loops_sentence_must_use_both_results() -> None:
    said = "For Beijing, it is 21 celsius and clear. For Shanghai, it is 25 celsius and cloudy."
    assert tool_loop.true_of(said)
    assert not tool_loop.true_of(said.replace("25", "24"))
    assert not tool_loop.true_of(said.rstrip("."))


@pytest.fixture
def vllm() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append({"path": self.path, "key": self.headers["authorization"], **body})
            content = "<think>\n\n</think>\n\n<tool_call>x</tool_call><|im_end|>"
            answer = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
            self.send_response(200 if body["model"] == "m" else 404)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def test_the_model_alone_sees_the_same_and_is_held_to_nothing(
    vllm: tuple[str, list[dict[str, Any]]],
) -> None:
    url, asked = vllm
    named = next(case.request for case in cases() if case.title.startswith("5"))
    request = {**named, "temperature": 0, "max_tokens": 9, "parallel_tool_calls": False}
    text = alone(url, "secret", "m", request)
    assert text == "<think>\n\n</think>\n\n<tool_call>x</tool_call>"
    [body] = asked
    assert body["path"] == "/v1/chat/completions"
    assert body["key"] == "Bearer secret"
    assert body["messages"] == named["messages"]
    assert body["tools"] == named["tools"]
    assert body["tool_choice"] == "none"
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "parallel_tool_calls" not in body
    assert (body["temperature"], body["max_tokens"]) == (0, 9)


def test_a_refusal_of_the_backend_is_an_error(vllm: tuple[str, list[dict[str, Any]]]) -> None:
    with pytest.raises(httpx.HTTPStatusError):
        alone(vllm[0], "secret", "another", {"messages": [], "tools": []})
