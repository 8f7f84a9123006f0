"""Compaction in the Messages API on the gateway's own route."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from pydantic import TypeAdapter

from tests.support.litellm.own_route import MASTER, Gateway, Response
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.api.surfaces import MESSAGES
from toolgate_proxy.chat.compaction.compacted import shown
from toolgate_proxy.chat.compaction.summary import asked
from toolgate_proxy.litellm_host.callbacks.response_forms import completion_of
from toolgate_proxy.server.response_headers import own_headers

PATH = "/v1/messages"
SUMMARY = "They talked."
LONG = "word " * 400
KEY = "sk-1234567890abcdef1234567890abcdef"
EVENT: TypeAdapter[Any] = TypeAdapter(BetaRawMessageStreamEvent)
Json = dict[str, Any]
TEXT = {"type": "text"}
HISTORY: list[Json] = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": LONG},
    {"role": "user", "content": "next"},
]


def edit(**more: Any) -> Json:
    trigger = {"type": "input_tokens", "value": 100}
    return {"edits": [{"type": "compact_20260112", "trigger": trigger, **more}]}


@pytest.fixture(autouse=True)
def scripts(gateway: Gateway) -> None:
    gateway.backend.scripts |= {
        "next": Script(("And on",), prompt_tokens=2000),
        f"{shown(SUMMARY)}\n\nnext": Script(("And so on",)),
        asked(25, ""): Script((SUMMARY,), prompt_tokens=1990, cached_tokens=1000),
        f"next\n\n{asked(25, '')}": Script((SUMMARY,)),
        str([TEXT | {"text": shown(SUMMARY)}, TEXT | {"text": "next"}]): Script(("And so on",)),
    }


async def ask(
    gateway: Gateway, messages: Any = HISTORY, path: str = PATH, key: str = MASTER, **params: Any
) -> Response:
    body = {"model": "tiny", "max_tokens": 100, "messages": messages, **params}
    return await gateway.ask(body, path=path, key=key)


async def compacted(gateway: Gateway, **more: Any) -> Json:
    response = await ask(gateway, context_management=edit(**more))
    assert response.status == 200, response.bodies
    BetaMessage.model_validate_json(json.dumps(response.json), strict=True)
    message: Json = response.json
    return message


def answer(content: Any) -> Json:
    return {"role": "assistant", "content": content}


def contents(gateway: Gateway) -> list[tuple[str, Any]]:
    return [(each["role"], each["content"]) for each in gateway.backend.messages()]


async def test_a_message_begins_with_the_summary(gateway: Gateway) -> None:
    response = await ask(gateway, system="Be brief.", context_management=edit())
    message = response.json
    block, text = message["content"]
    assert (block["type"], block["content"]) == ("compaction", SUMMARY)
    assert text == {"type": "text", "text": "And so on"}
    assert message["stop_reason"] == "end_turn"
    usage = message["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (8, 3)
    made, answered = usage["iterations"]
    assert (made["type"], made["input_tokens"], made["cache_read_input_tokens"]) == (
        "compaction", 990, 1000,
    )  # fmt: skip
    assert (answered["type"], answered["output_tokens"]) == ("message", usage["output_tokens"])
    assert response.context.prompt_tokens == 1990 + 11
    assert contents(gateway) == [("system", "Be brief."), ("user", f"{shown(SUMMARY)}\n\nnext")]


async def test_a_streamed_message_is_the_same(gateway: Gateway) -> None:
    whole = await compacted(gateway)
    response = await ask(gateway, context_management=edit(), stream=True)
    for event in response.events:
        EVENT.validate_json(json.dumps(event), strict=True)
    kinds = [event["type"] for event in response.events]
    assert kinds[:4] == [
        "message_start", "content_block_start", "content_block_delta", "content_block_stop",
    ]  # fmt: skip
    delta = response.events[2]["delta"]
    assert (delta["type"], delta["content"]) == ("compaction_delta", SUMMARY)
    assert response.events[-2]["usage"]["iterations"] == whole["usage"]["iterations"]
    messages = [answer([{**delta, "type": "compaction"}, {"type": "text", "text": "x"}])]
    await ask(gateway, [*messages, {"role": "user", "content": "next"}])
    assert contents(gateway)[0] == ("user", f"{shown(SUMMARY)}\n\nnext")


async def test_what_is_before_the_block_is_no_part_of_the_conversation(gateway: Gateway) -> None:
    message = await compacted(gateway)
    asking = [answer(message["content"]), {"role": "user", "content": "next"}]
    for earlier in ([], HISTORY, [{"role": "user", "content": [{"type": "unknown"}]}]):
        response = await ask(gateway, [*earlier, *asking], system="Be brief.")
        assert response.status == 200, response.bodies
        assert contents(gateway) == [
            ("system", "Be brief."),
            ("user", f"{shown(SUMMARY)}\n\nnext"),
            ("assistant", "And so on"),
            ("user", "next"),
        ]


async def test_a_response_may_pause_after_the_summary(gateway: Gateway) -> None:
    message = await compacted(gateway, pause_after_compaction=True)
    [block] = message["content"]
    assert (block["type"], message["stop_reason"]) == ("compaction", "compaction")
    assert [each["type"] for each in message["usage"]["iterations"]] == ["compaction"]
    assert message["usage"]["output_tokens"] == 0
    resumed = await ask(gateway, [*HISTORY, answer([block])], context_management=edit())
    assert resumed.status == 200, resumed.bodies
    assert contents(gateway) == [("user", f"{shown(SUMMARY)}\n\nnext")]
    assert resumed.json["content"] == [{"type": "text", "text": "And so on"}]


async def test_the_client_may_decide_what_stays_after_a_pause(gateway: Gateway) -> None:
    [block] = (await compacted(gateway, pause_after_compaction=True))["content"]
    response = await ask(gateway, [answer([block]), *HISTORY[2:]])
    assert response.status == 200, response.bodies
    texts = [{"type": "text", "text": text} for text in (shown(SUMMARY), "next")]
    assert contents(gateway) == [("user", texts)]


async def test_a_summary_may_be_demanded(gateway: Gateway) -> None:
    gateway.backend.scripts[f"next\n\n{asked(100, 'Keep the names.')}"] = Script((SUMMARY,))
    wanted = {"type": "summarize", "instructions": "Keep the names."}
    message = (await ask(gateway, compaction=wanted)).json
    BetaMessage.model_validate_json(json.dumps(message), strict=True)
    assert message["stop_reason"] == "compaction"
    response = await ask(gateway, [answer(message["content"]), HISTORY[2]])
    texts = [{"type": "text", "text": text} for text in (shown(SUMMARY), "next")]
    assert contents(gateway) == [("user", texts)]
    assert response.status == 200
    both = await ask(gateway, compaction=wanted, context_management=edit())
    assert (both.status, both.json["error"]["param"]) == (400, "compaction")


async def test_instructions_are_part_of_the_request_for_the_summary(gateway: Gateway) -> None:
    gateway.backend.scripts[asked(25, "Keep the names.")] = Script((SUMMARY,))
    message = await compacted(gateway, instructions="Keep the names.")
    assert message["content"][0]["content"] == SUMMARY


async def test_calls_and_results_stay_together(gateway: Gateway) -> None:
    def used(number: int, text: str) -> list[Json]:
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
        seen = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
        return [answer([use]), {"role": "user", "content": [seen]}]

    gateway.backend.scripts["Two."] = Script(("Done.",), prompt_tokens=2000)
    asking = [{"role": "user", "content": "next"}, *used(1, LONG), *used(2, "Two.")]
    response = await ask(gateway, asking, context_management=edit())
    assert response.status == 200, response.bodies
    first, call, seen = gateway.backend.messages()
    assert first["content"] == f"{shown(SUMMARY)}\n\nnext"
    assert call["tool_calls"][0]["id"] == seen["tool_call_id"] == "toolu_2"

    asking = [*asking, answer(response.json["content"]), {"role": "user", "content": "next"}]
    assert (await ask(gateway, asking)).status == 200
    assert gateway.backend.messages()[:3] == [first, call, seen]


async def test_the_block_of_another_key_is_its_text(gateway: Gateway) -> None:
    message = await compacted(gateway)
    gateway.add_key(KEY, key_of(KEY))
    asking = [*HISTORY, answer(message["content"]), {"role": "user", "content": "next"}]
    response = await ask(gateway, asking, key=KEY)
    assert own_headers(response.context)["x-toolgate-history"] == "as_text=messages[3].content[0]"
    assert contents(gateway)[0] == ("user", shown(SUMMARY))


async def test_a_block_without_a_summary_changes_nothing(gateway: Gateway) -> None:
    block = {"type": "compaction", "content": None}
    asking = [HISTORY[0], answer([block, {"type": "text", "text": "Hi."}]), HISTORY[2]]
    response = await ask(gateway, asking)
    assert contents(gateway) == [("user", "hello"), ("assistant", "Hi."), ("user", "next")]
    assert "x-toolgate-history" not in own_headers(response.context)


async def test_a_count_does_not_compact(gateway: Gateway) -> None:
    response = await ask(gateway, path=f"{PATH}/count_tokens", context_management=edit())
    assert response.json["input_tokens"] == 2000
    assert not gateway.backend.requests


async def test_a_cut_summary_is_an_error(gateway: Gateway) -> None:
    gateway.backend.scripts[asked(25, "")] = Script((SUMMARY,), finish="length")
    response = await ask(gateway, context_management=edit())
    assert (response.status, response.json["error"]["code"]) == (502, "compaction_failed")
    assert len(gateway.backend.requests) == 1


@pytest.mark.parametrize(
    ("management", "param"),
    [
        (edit(trigger={"type": "tool_uses", "value": 3}), "edits[0].trigger.type"),
        (edit(pause_after_compaction="no"), "edits[0].pause_after_compaction"),
        ({"edits": edit()["edits"] * 2}, "edits"),
    ],
)
async def test_invalid_edits_are_refused(gateway: Gateway, management: Json, param: str) -> None:
    response = await ask(gateway, context_management=management)
    assert (response.status, response.json["error"]["param"]) == (
        400, f"context_management.{param}",
    )  # fmt: skip


def test_other_providers_get_a_summary_as_text() -> None:
    block = {"type": "compaction", "content": SUMMARY, "encrypted_content": "x"}
    body = MESSAGES.portable({"messages": [HISTORY[0], answer([block])]})
    assert body["messages"][1]["content"] == [{"type": "text", "text": SUMMARY}]


async def test_a_log_event_has_the_tokens_of_the_summary(gateway: Gateway) -> None:
    logged = completion_of(await compacted(gateway))["usage"]
    assert logged["prompt_tokens"] == 1990 + 11
    assert logged["prompt_tokens_details"] == {"cached_tokens": 1003}
