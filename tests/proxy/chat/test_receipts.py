"""Receipts of responses in all three APIs, whole and streamed, and their audit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.chat_events import VALIDATORS, events, fed, request
from tests.support.apis.signed_responses import FORMS, PRIVATE, signed_response
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import call
from toolgate_core import wire
from toolgate_core.dialects.families.hermes import QWEN3
from toolgate_core.errors import UnsupportedParameter
from toolgate_core.plan import make_plan
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.api.surfaces import SURFACES
from toolgate_proxy.chat.calls import CallCheck
from toolgate_proxy.chat.engine import Engine
from toolgate_proxy.chat.receipt_log import ReceiptLog
from toolgate_proxy.chat.response import ChatResponse
from toolgate_proxy.settings import Settings

TWO = "".join([call("look", {"b": 1, "a": "é 🙂"}), "\n", call("walk", {})])


def response_to(text: str) -> tuple[ChatResponse, list[wire.StreamEvent]]:
    asked = request(receipt=True)
    plan = make_plan(asked, QWEN3)
    check = CallCheck(plan.candidates, (), VALIDATORS)
    made = ChatResponse(asked, plan, QWEN3, INFO, check)
    made.receipts = ReceiptLog(PRIVATE, plan, {}, INFO)
    return made, events(text)


@pytest.fixture(params=SURFACES, ids=lambda surface: surface.name)
def surface(request: pytest.FixtureRequest) -> Surface:
    return request.param  # type: ignore[no-any-return]


def test_a_receipt_has_the_calls_and_the_versions(surface: Surface) -> None:
    receipt = signed_response(surface, TWO)["toolgate"]["receipt"]
    assert [entry["name"] for entry in receipt["calls"]] == ["look", "walk"]
    assert [entry["index"] for entry in receipt["calls"]] == [0, 1]
    assert receipt["versions"]["vllm"] == INFO.vllm_version


def test_streamed_and_whole_receipts_state_the_same(surface: Surface) -> None:
    first, second = (
        signed_response(surface, TWO, form=form)["toolgate"]["receipt"] for form in FORMS
    )
    for receipt in (first, second):
        for name in ("signature", "created"):
            del receipt[name]
        for entry in receipt["calls"]:
            del entry["id"]
    assert first == second


def test_a_cut_call_is_not_complete_in_the_receipt(surface: Surface) -> None:
    cut = call("look", {"a": "north of the bridge"})[:60]
    [entry] = signed_response(surface, cut, cut=[0])["toolgate"]["receipt"]["calls"]
    assert (entry["complete"], "value" in entry) == (False, False)


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
