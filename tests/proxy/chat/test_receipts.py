"""Receipts of responses in all three APIs, whole and streamed, and their audit."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.support.apis.chat_events import VALIDATORS, events, fed, request
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import call
from toolgate_core import wire
from toolgate_core.dialects.families.hermes import QWEN3
from toolgate_core.errors import UnsupportedParameter
from toolgate_core.plan import make_plan
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.api.surfaces import SURFACES
from toolgate_proxy.backend_client.sse import SseParser
from toolgate_proxy.chat.engine import Engine
from toolgate_proxy.chat.held_calls import CallCheck
from toolgate_proxy.chat.receipt_log import ReceiptLog
from toolgate_proxy.chat.response import ChatResponse
from toolgate_proxy.cli.audit.auditing import AuditFailed, audit
from toolgate_proxy.cli.audit.log_line import read_line
from toolgate_proxy.receipts.keys import new_key, read_key
from toolgate_proxy.settings import Settings

PRIVATE, PUBLIC = (read_key(text) for text in new_key("ed25519"))
TWO = "".join([call("look", {"b": 1, "a": "é 🙂"}), "\n", call("walk", {})])
TOOL = {"name": "look", "parameters": {"type": "object"}}
ENTRIES = {
    "chat completions": {"type": "function", "function": TOOL},
    "responses": {"type": "function", **TOOL},
    "messages": {"name": "look", "input_schema": {"type": "object"}},
}


def response_to(text: str, finish: str = "stop") -> tuple[ChatResponse, list[wire.StreamEvent]]:
    asked = request(receipt=True)
    plan = make_plan(asked, QWEN3)
    check = CallCheck(plan.candidates, (), VALIDATORS)
    made = ChatResponse(asked, plan, QWEN3, INFO, check)
    made.receipts = ReceiptLog(PRIVATE, plan, {}, INFO)
    return made, events(text, finish=finish)


def whole(surface: Surface, text: str = TWO, finish: str = "stop") -> dict[str, Any]:
    response, sent = response_to(text, finish)
    made = surface.whole(response, "tiny")
    made.add(fed(response, sent))
    return json.loads(json.dumps(made.body()))  # type: ignore[no-any-return]


def streamed_receipt(surface: Surface) -> Any:
    response, sent = response_to(TWO)
    stream = surface.stream(response, "tiny")
    data = stream.events(fed(response, sent)) + stream.end()
    found = [json.loads(each) for each in SseParser().feed(data) if each != b"[DONE]"]
    values = [each.get("response", each).get("toolgate", {}) for each in found]
    receipts = [value["receipt"] for value in values if "receipt" in value]
    assert len(receipts) == 1, "one receipt, at the end"
    return receipts[0]


def checked(body: dict[str, Any], entry: dict[str, Any] | None = None) -> None:
    line = body if entry is None else {"request": {"tools": [entry]}, "response": body}
    audit(read_line(json.dumps(line)), PUBLIC)


@pytest.fixture(params=SURFACES, ids=lambda surface: surface.name)
def surface(request: pytest.FixtureRequest) -> Surface:
    return request.param  # type: ignore[no-any-return]


def test_a_response_matches_its_receipt(surface: Surface) -> None:
    body = whole(surface)
    checked(body)
    checked(body, ENTRIES[surface.name])
    receipt = body["toolgate"]["receipt"]
    assert [entry["name"] for entry in receipt["calls"]] == ["look", "walk"]
    assert receipt["versions"]["vllm"] == INFO.vllm_version


def test_streamed_and_whole_receipts_state_the_same(surface: Surface) -> None:
    first, second = whole(surface)["toolgate"]["receipt"], streamed_receipt(surface)
    for receipt in (first, second):
        for name in ("signature", "created"):
            del receipt[name]
        for entry in receipt["calls"]:
            del entry["id"]
    assert first == second


def test_a_cut_call_is_not_complete_in_the_receipt(surface: Surface) -> None:
    cut = call("look", {"a": "north of the bridge"})[:60]
    body = whole(surface, cut, finish="length")
    assert [each["complete"] for each in body["toolgate"]["receipt"]["calls"]] == [False]
    checked(body)


def changed_calls(body: dict[str, Any]) -> None:
    """Changes the arguments of the first call, in any API."""
    for choice in body.get("choices", ()):
        choice["message"]["tool_calls"][0]["function"]["arguments"] = "{}"
    for item in body.get("output", ()):
        item["arguments"] = "{}"
    if body.get("type") == "message":
        body["content"][0]["input"] = {}


def test_changed_arguments_are_found(surface: Surface) -> None:
    body = whole(surface)
    changed_calls(body)
    with pytest.raises(AuditFailed, match="call 0 of 'look' was changed"):
        checked(body)


def test_a_missing_call_is_found(surface: Surface) -> None:
    body = whole(surface)
    for calls in (
        *(choice["message"]["tool_calls"] for choice in body.get("choices", ())),
        body.get("output", []),
        body.get("content", []),
    ):
        del calls[-1:]
    with pytest.raises(AuditFailed, match="call 1 of 'walk' is missing"):
        checked(body)


def test_a_receipt_of_another_response_is_found(surface: Surface) -> None:
    first, second = whole(surface), whole(surface)
    second["id"] = "another"
    with pytest.raises(AuditFailed, match="is that of the response"):
        checked(second)
    del first["toolgate"]
    with pytest.raises(AuditFailed, match="no receipt"):
        checked(first)


def test_another_schema_is_found(surface: Surface) -> None:
    entry = copy.deepcopy(ENTRIES[surface.name])
    schema = entry.get("function", entry)
    name = "input_schema" if "input_schema" in schema else "parameters"
    schema[name] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    with pytest.raises(AuditFailed, match="schema of 'look' is not the one"):
        checked(whole(surface), entry)


def test_keywords_of_masks_and_of_the_check() -> None:
    from toolgate_core.tools import parse_tools

    numbers = {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "title": "N"}
    schema = {"type": "object", "properties": {"n": numbers}, "required": ["n"]}
    tools = parse_tools([{"type": "function", "function": {"name": "f", "parameters": schema}}])
    asked = request(receipt=True)
    plan = make_plan(asked.__class__(**{**asked.__dict__, "tools": tools}), QWEN3)
    pointer = "/properties/n/uniqueItems"
    residual = {tools[0].hash: [wire.ResidualKeyword(pointer=pointer, keyword="uniqueItems")]}
    [entry] = ReceiptLog(PRIVATE, plan, residual, INFO).receipt("r", 1, "m")["tools"]
    assert entry["checked"] == ["uniqueItems"]
    assert {"enum", "items", "properties", "required", "type"} <= {*entry["masked"]}
    assert not {"uniqueItems", "title"} & {*entry["masked"]}


def test_without_a_request_for_it_there_is_no_receipt(surface: Surface) -> None:
    response, sent = response_to(TWO)
    response.receipts = None
    made = surface.whole(response, "tiny")
    made.add(fed(response, sent))
    assert "toolgate" not in made.body()


async def test_a_gateway_without_a_key_refuses_requests_for_receipts() -> None:
    unused: Any = None
    with pytest.raises(UnsupportedParameter, match="TOOLGATE_RECEIPT_KEY") as error:
        await Engine(Settings()).begin(request(receipt=True), unused, unused)
    assert error.value.param == "toolgate.receipt"
