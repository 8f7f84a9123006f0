"""Compaction in the Responses API on the gateway's own route."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import CompactedResponse

from tests.support.apis.read_responses import read_events
from tests.support.apis.responses_api import LOOK, check_event, check_response
from tests.support.litellm.own_route import MASTER, Gateway, Response, ours
from tests.support.litellm.router import row, use
from tests.support.servers.fake_backend import KEY as KEY_OF_BACKEND
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.api.surfaces import RESPONSES
from toolgate_proxy.chat.compaction.compacted import shown
from toolgate_proxy.chat.compaction.summary import asked
from toolgate_proxy.server.response_headers import own_headers

PATH = "/v1/responses"
COMPACT = f"{PATH}/compact"
TRIGGER = {"type": "compaction_trigger"}
SUMMARY = "They talked."
ASKED = asked(512, "")
LONG = "word " * 400
KEY = "sk-1234567890abcdef1234567890abcdef"
Json = dict[str, Any]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def said(text: str) -> Json:
    return {"role": "assistant", "content": text}


def called(call_id: str) -> Json:
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}"}


def result(call_id: str) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": "Seen."}


HISTORY = [
    {"role": "developer", "content": "Be brief."},
    user("hello"),
    said("Hi."),
    user("Look."),
    called("c1"),
    result("c1"),
    said("A bridge."),
]


@pytest.fixture(autouse=True)
def scripts(gateway: Gateway) -> None:
    gateway.backend.scripts[ASKED] = Script((f" {SUMMARY}\n",))
    gateway.backend.scripts["next"] = Script(("And so on",))


async def ask(
    gateway: Gateway, given: Any, path: str = PATH, key: str = MASTER, **params: Any
) -> Response:
    body = {"model": "tiny", "input": given, **params}
    return await gateway.ask(body, path=path, key=key)


async def compacted(gateway: Gateway, given: Any = HISTORY, **params: Any) -> list[Json]:
    """The output of `/responses/compact`. OpenAI's model of it has no messages of users, which
    OpenAI's documentation has."""
    response = await ask(gateway, given, COMPACT, **params)
    assert response.status == 200, response.bodies
    output: list[Json] = response.json["output"]
    made = [item for item in output if item["type"] != "message"]
    CompactedResponse.model_validate({**response.json, "output": made}, strict=True)
    return output


def contents(gateway: Gateway) -> list[tuple[str, Any]]:
    return [(each["role"], each["content"]) for each in gateway.backend.messages()]


async def test_a_conversation_is_compacted(gateway: Gateway) -> None:
    response = await ask(gateway, HISTORY, COMPACT, tools=[LOOK])
    body = response.json
    assert body["object"] == "response.compaction"
    *kept, item = body["output"]
    assert [each["role"] for each in kept] == ["developer", "user", "user"]
    assert [each["content"][0]["text"] for each in kept] == ["Be brief.", "hello", "Look."]
    assert item["type"] == "compaction"
    assert SUMMARY not in str(body)
    assert body["usage"]["input_tokens"] == response.context.prompt_tokens == 11
    assert body["usage"]["output_tokens"] == response.context.completion_tokens > 0

    [sent] = gateway.backend.requests
    assert contents(gateway)[-1] == ("user", ASKED)
    assert [each["role"] for each in gateway.backend.messages()[:-1]] == [
        "system", "user", "assistant", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert sent.sampling.max_tokens == 512
    assert sent.enforcement is not None
    assert (sent.enforcement.choice, sent.enforcement.reasoning) == ("none", "off")


async def test_the_output_is_the_next_input(gateway: Gateway) -> None:
    output = await compacted(gateway)
    response = await ask(gateway, [*output, user("next")])
    assert response.status == 200, response.bodies
    assert contents(gateway) == [
        ("system", [{"type": "text", "text": "Be brief."}]),
        ("user", [{"type": "text", "text": "hello"}]),
        ("user", [{"type": "text", "text": "Look."}]),
        ("user", shown(SUMMARY)),
        ("assistant", "A bridge."),
        ("user", "next"),
    ]
    assert "x-toolgate-history" not in own_headers(response.context)


async def test_a_call_without_a_result_stays(gateway: Gateway) -> None:
    gateway.backend.scripts[f"Again.\n\n{ASKED}"] = Script((SUMMARY,))
    output = await compacted(gateway, [*HISTORY, user("Again."), called("c2")])
    gateway.backend.scripts["Seen."] = Script(("Another bridge.",))
    response = await ask(gateway, [*output, result("c2")])
    assert response.status == 200, response.bodies
    call, seen = gateway.backend.messages()[-2:]
    assert call["tool_calls"][0]["id"] == seen["tool_call_id"]
    assert contents(gateway)[-3] == ("user", shown(SUMMARY))


async def test_a_second_summary_replaces_the_first_one(gateway: Gateway) -> None:
    first = await compacted(gateway)
    gateway.backend.scripts[ASKED] = Script(("They talked again.",))
    second = await compacted(gateway, [*first, user("Go on."), said("On.")])
    assert shown(SUMMARY) in [content for _, content in contents(gateway)]
    assert [each["type"] for each in second].count("compaction") == 1
    await ask(gateway, [*second, user("next")])
    assert SUMMARY not in str(contents(gateway))
    assert shown("They talked again.") in [content for _, content in contents(gateway)]


async def test_a_stored_response_is_compacted_and_continued_by_its_id(gateway: Gateway) -> None:
    first = (await ask(gateway, [*HISTORY, user("next")])).json
    output = (await gateway.ask(
        {"model": "tiny", "previous_response_id": first["id"]}, path=COMPACT
    )).json["output"]  # fmt: skip
    assert output[-1]["type"] == "compaction"
    second = (await ask(gateway, [TRIGGER], previous_response_id=first["id"])).json
    assert [item["type"] for item in second["output"]] == ["compaction"]
    response = await ask(gateway, "next", previous_response_id=second["id"])
    assert response.status == 200, response.bodies
    assert ("user", shown(SUMMARY)) in contents(gateway)
    assert ("assistant", "Hi.") not in contents(gateway)
    listed = await gateway.ask(b"", path=f"{PATH}/{second['id']}/input_items", method="GET")
    assert "compaction_trigger" not in str(listed.json)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_trigger_is_answered_by_the_summary_alone(gateway: Gateway, stream: bool) -> None:
    response = await ask(gateway, [*HISTORY, TRIGGER], stream=stream, tools=[LOOK])
    assert response.status == 200, response.bodies
    body: Json = {} if stream else response.json
    if stream:
        events = read_events(b"".join(response.bodies))
        for event in events:
            check_event(event)
        assert [event["type"].removeprefix("response.") for event in events] == [
            "created", "in_progress", "output_item.added", "output_item.done", "completed",
        ]  # fmt: skip
        body = events[-1]["response"]
        assert events[3]["item"] == body["output"][0]
    check_response(body)
    assert body["usage"]["input_tokens"] == 11
    [item] = body["output"]
    kept = [each for each in HISTORY if each.get("role") in ("user", "developer")]
    await ask(gateway, [*kept, item, user("next")])
    assert ("user", shown(SUMMARY)) in contents(gateway)


async def test_a_trigger_must_be_the_last_item(gateway: Gateway) -> None:
    response = await ask(gateway, [user("hello"), TRIGGER, user("next")])
    assert (response.status, response.json["error"]["param"]) == (400, "input[1]")


@pytest.mark.parametrize(
    ("path", "given", "params", "param"),
    [
        (PATH, [TRIGGER], {}, "input"),
        (PATH, [{"role": "developer", "content": "Be brief."}, TRIGGER], {}, "input"),
        (COMPACT, None, {}, "input"),
        (COMPACT, [], {}, "input"),
        (COMPACT, "hello", {"stream": True}, "stream"),
        (PATH, "hello", {"context_management": [{"type": "x"}]}, "context_management[0].type"),
        (PATH, "hello", {"context_management": ["compaction"]}, "context_management[0]"),
    ],
)  # fmt: skip
async def test_requests_that_can_not_be_compacted_are_refused(
    gateway: Gateway, path: str, given: Any, params: Json, param: str
) -> None:
    response = await ask(gateway, given, path, **params)
    assert (response.status, response.json["error"]["param"]) == (400, param)
    assert not gateway.backend.requests


@pytest.mark.parametrize(
    "script",
    [Script((SUMMARY,), finish="length"), Script(("",)), Script(("<think>Hm.</think>",))],
    ids=["cut", "empty", "reasoning only"],
)
@pytest.mark.parametrize("path", [PATH, COMPACT])
async def test_an_incomplete_summary_is_an_error(
    gateway: Gateway, script: Script, path: str
) -> None:
    gateway.backend.scripts[ASKED] = script
    items = HISTORY if path == COMPACT else [*HISTORY, TRIGGER]
    response = await ask(gateway, items, path)
    assert (response.status, response.json["error"]["code"]) == (502, "compaction_failed")


async def test_an_error_of_the_backend_is_an_error_of_the_compaction(gateway: Gateway) -> None:
    gateway.backend.scripts[ASKED] = Script((SUMMARY,), error_after=1)
    response = await ask(gateway, HISTORY, COMPACT)
    assert (response.status, response.json["error"]["code"]) == (500, "enforcement_failed")


async def test_another_key_can_not_read_a_summary(gateway: Gateway) -> None:
    output = await compacted(gateway)
    gateway.add_key(KEY, key_of(KEY))
    response = await ask(gateway, [*output, user("next")], key=KEY)
    assert response.status == 200
    assert own_headers(response.context)["x-toolgate-history"] == "left_out=input[3]"
    assert SUMMARY not in str(contents(gateway))
    assert [role for role, _ in contents(gateway)] == ["system", "user", "user", "user"]


async def test_a_changed_summary_is_left_out(gateway: Gateway) -> None:
    *_, item = await compacted(gateway)
    text = item["encrypted_content"]
    changed = {**item, "encrypted_content": text[:-8] + "AAAA" + text[-4:]}
    response = await ask(gateway, [said("Hi."), changed, user("next")])
    assert own_headers(response.context)["x-toolgate-history"] == "left_out=input[1]"
    assert [role for role, _ in contents(gateway)] == ["assistant", "user"]


def management(threshold: int = 1000) -> Json:
    return {"context_management": [{"type": "compaction", "compact_threshold": threshold}]}


OLD = [user("hello"), said(LONG), user("next")]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_prompt_above_the_threshold_is_compacted(gateway: Gateway, stream: bool) -> None:
    del gateway.backend.scripts[ASKED]
    gateway.backend.scripts["next"] = Script(("unused",), prompt_tokens=2000)
    gateway.backend.turns += [Script((SUMMARY,), prompt_tokens=1990), Script(("And so on",))]
    rules: Json = {"instructions": "Be brief.", "seed": 7, "temperature": 0.5}
    response = await ask(gateway, OLD, stream=stream, **management(), **rules)
    assert response.status == 200, response.bodies
    body: Json = {} if stream else response.json
    if stream:
        events = read_events(b"".join(response.bodies))
        for event in events:
            check_event(event)
        body = events[-1]["response"]
    check_response(body)
    item, message = body["output"]
    assert (item["type"], message["type"]) == ("compaction", "message")
    first, second = gateway.backend.requests
    assert contents(gateway) == [("system", "Be brief."), ("user", f"{shown(SUMMARY)}\n\nnext")]
    assert (first.sampling.seed, first.sampling.temperature) == (7, 0.5)
    assert first.sampling.max_tokens == 250
    assert first.request_id != second.request_id
    used = body["usage"]
    assert used["input_tokens"] == response.context.prompt_tokens == 1990 + 11
    assert used["output_tokens"] == response.context.completion_tokens

    given = [*OLD, *body["output"], user("next")]
    gateway.backend.scripts["next"] = Script(("And on",))
    response = await ask(gateway, given, **management(), **rules)
    assert response.status == 200, response.bodies
    assert contents(gateway) == [
        ("system", "Be brief."),
        ("user", f"{shown(SUMMARY)}\n\nnext"),
        ("assistant", [{"type": "text", "text": "And so on"}]),
        ("user", "next"),
    ]
    assert [item["type"] for item in response.json["output"]] == ["message"]


async def test_a_prompt_below_the_threshold_stays_as_it_is(gateway: Gateway) -> None:
    response = await ask(gateway, OLD, **management())
    assert [item["type"] for item in response.json["output"]] == ["message"]
    assert len(gateway.backend.requests) == 1


async def test_a_prompt_without_room_for_the_response_is_compacted(gateway: Gateway) -> None:
    gateway.backend.scripts["next"] = Script(("unused",), prompt_tokens=300)
    gateway.backend.turns += [Script((SUMMARY,)), Script(("And so on",))]
    response = await ask(gateway, OLD, max_output_tokens=3900, **management(2000))
    assert response.status == 200, response.bodies
    assert [item["type"] for item in response.json["output"]] == ["compaction", "message"]


async def test_a_failed_summary_ends_the_request(gateway: Gateway) -> None:
    gateway.backend.scripts["next"] = Script(("unused",), prompt_tokens=2000)
    gateway.backend.turns.append(Script((SUMMARY,), finish="length"))
    response = await ask(gateway, OLD, stream=True, **management())
    assert "compaction_failed" in str(response.bodies)
    assert len(gateway.backend.requests) == 1


async def test_a_virtual_key_may_compact_and_pays_for_it(gateway: Gateway) -> None:
    gateway.add_key(KEY, key_of(KEY, tpm=100_000))
    response = await ask(gateway, HISTORY, COMPACT, key=KEY)
    assert response.status == 200, response.bodies
    used = response.context.used_tokens()
    assert (used.input, used.output) == (11, response.json["usage"]["output_tokens"])


async def test_both_generations_count_under_the_limits_of_a_key(gateway: Gateway) -> None:
    gateway.add_key(KEY, key_of(KEY, tpm=4000))
    gateway.backend.scripts["next"] = Script(("unused",), prompt_tokens=2000)
    gateway.backend.turns += [
        Script((SUMMARY,), prompt_tokens=1990),
        Script(("And so on",), prompt_tokens=3000),
    ]
    response = await ask(gateway, OLD, max_output_tokens=100, key=KEY, **management())
    assert (response.status, response.json["error"]["code"]) == (429, "rate_limit_exceeded")


async def test_a_lost_request_is_compacted_again_at_another_backend(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = gateway.backend.url.replace("127.0.0.1", "localhost")
    other = row("b", group="tiny", api_base=url, api_key=KEY_OF_BACKEND)
    use(monkeypatch, ours(gateway.backend), other)
    gateway.backend.scripts["next"] = Script(("unused",), prompt_tokens=2000)
    summary, lost = Script((SUMMARY,)), Script(("x",), break_after=0)
    gateway.backend.turns += [summary, lost, summary, Script(("And so on",))]
    response = await ask(gateway, OLD, stream=True, **management())
    assert response.status == 200, response.bodies
    events = read_events(b"".join(response.bodies))
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["compaction", "message"]
    assert len(gateway.backend.requests) == 4
    assert response.context.prompt_tokens == 22


def test_other_providers_do_not_get_sealed_summaries() -> None:
    items = [user("hello"), {"type": "compaction", "encrypted_content": "x"}, user("next")]
    assert RESPONSES.portable({"input": items})["input"] == [items[0], items[2]]
