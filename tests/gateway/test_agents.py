"""Coding agents against the whole stack. tests/proxy/process tests them with scripted backends.

A proxy before the gateway adds parameters that agents can't set: with forced calls, a random
model's answers are small, and its commands are not run. The context of the model is shorter than
the agents' own prompts with all tools.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.support.agents.agent_cli import run_claude, run_codex
from tests.support.apis import messages_api, responses_api
from tests.support.apis.read_responses import read_events
from tests.support.servers.loopback import Handler, running

pytestmark = pytest.mark.slow


class AddingProxy(ThreadingHTTPServer):
    """`added`: the parameters of each request, in turn. Keeps the bodies and the answers."""

    def __init__(self, gateway: str, added: Sequence[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gateway = gateway
        self.left = [*added]
        self.bodies: list[dict[str, Any]] = []
        self.answers: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(Handler):
    server: AddingProxy

    def do_GET(self) -> None:
        self._return(self._asked("GET", None))

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(sent)
        answer = self._asked("POST", sent | self.server.left.pop(0))
        self.server.answers.append(answer.content)
        self._return(answer)

    def _asked(self, method: str, body: dict[str, Any] | None) -> httpx.Response:
        names = ("authorization", "anthropic-beta", "anthropic-version")
        return httpx.request(
            method,
            f"{self.server.gateway}{self.path}",
            json=body,
            headers={name: self.headers[name] for name in names if name in self.headers},
            timeout=120,
            trust_env=False,
        )

    def _return(self, answer: httpx.Response) -> None:
        self.answer(answer.status_code, answer.content, answer.headers["content-type"])


@contextmanager
def adding_proxy(gateway: str, *added: dict[str, Any]) -> Iterator[AddingProxy]:
    server = AddingProxy(gateway, added)
    with running(server):
        yield server


@pytest.fixture
def of_claude(bias: dict[str, float]) -> dict[str, Any]:
    return {"logit_bias": bias, "max_tokens": 800, "reasoning_budget": 20, "seed": 3}


@pytest.fixture
def of_codex(bias: dict[str, float]) -> dict[str, Any]:
    return {"logit_bias": bias, "max_output_tokens": 400, "seed": 3}


def message_of(answer: bytes) -> Any:
    return messages_api.accumulated(read_events(answer))


def message_text(message: Any) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def items_text(answer: bytes) -> str:
    items = responses_api.accumulated(read_events(answer))
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    return "".join(part["text"] for part in parts)


def test_claude_code_calls_two_tools_and_reads_their_results(gateway, of_claude, tmp_path):
    called = ("Read", "Grep")
    choices = [*({"type": "tool", "name": name} for name in called), {"type": "none"}]
    offered = ",".join(called)
    options = ("--tools", offered, "--allowedTools", offered, "--system-prompt", "Use the tools.")
    added = [of_claude | {"tool_choice": each} for each in choices]
    with adding_proxy(gateway.url, *added) as proxy:
        run = run_claude(proxy.url, gateway.key, tmp_path, "Read, then search.", *options)
    assert (run.result["subtype"], run.result["is_error"]) == ("success", False), run
    answers = [message_of(answer) for answer in proxy.answers]
    assert [answer["stop_reason"] for answer in answers[:2]] == ["tool_use", "tool_use"]
    calls = [answer["content"][-1] for answer in answers[:2]]
    assert [call["name"] for call in calls] == [*called]
    executed = [(block["id"], block["input"]) for block in run.blocks("tool_use")]
    assert executed == [(call["id"], call["input"]) for call in calls]
    for answer, call, body in zip(answers, calls, proxy.bodies[1:], strict=False):
        turn, returned = body["messages"][-2:]
        assert [block["type"] for block in turn["content"]] == ["thinking", "tool_use"]
        assert turn["content"][0]["signature"] == answer["content"][0]["signature"]
        [result] = [block for block in returned["content"] if block["type"] == "tool_result"]
        assert result["tool_use_id"] == call["id"]
    assert run.result["result"].strip() == message_text(answers[2]).strip()


def test_codex_calls_a_tool_and_reads_its_result(gateway, of_codex, tmp_path):
    view = {"tool_choice": {"type": "function", "name": "view_image"}}
    with adding_proxy(gateway.url, of_codex | view, of_codex | {"tool_choice": "none"}) as proxy:
        run = run_codex(
            proxy.url, gateway.key, tmp_path, "Look.", in_catalog=True, sandbox="read-only"
        )
    assert run.events[-1]["type"] == "turn.completed", (run, proxy.answers)
    items = responses_api.accumulated(read_events(proxy.answers[0]))
    [call] = [item for item in items if item["type"] == "function_call"]
    assert call["name"] == "view_image"
    returned = {item["type"]: item for item in proxy.bodies[1]["input"]}
    assert returned["function_call"]["arguments"] == call["arguments"]
    assert returned["function_call_output"]["call_id"] == call["call_id"]
    assert returned["function_call_output"]["output"]
    said = "".join(item["text"] for item in run.items("agent_message"))
    assert said.strip() == items_text(proxy.answers[1]).strip()
