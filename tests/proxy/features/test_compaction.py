"""Conversations that get shorter on the own route: by summaries and by edits of the context."""

from itertools import product

import pytest
from openai.types.responses import CompactedResponse

from tests.proxy.server import kit
from tests.proxy.server.kit import goes_on, same
from tests.support.apis.responses_api import LOOK
from tests.support.litellm.own_route import PATHS, ours
from tests.support.litellm.router import row, use
from tests.support.servers.fake_backend import KEY as KEY_OF_BACKEND
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.api.surfaces import MESSAGES, RESPONSES
from toolgate_proxy.features.compaction.compacted import shown
from toolgate_proxy.features.compaction.edits import CLEARED
from toolgate_proxy.features.compaction.respond import asked
from toolgate_proxy.litellm_host.callbacks.response_forms import completion_of

COMPACT = f"{PATHS['responses']}/compact"
COUNT = f"{PATHS['messages']}/count_tokens"
TRIGGER = {"type": "compaction_trigger"}
SUMMARY = "They talked."
ASKED = asked(512, "")
AFTER = f"{shown(SUMMARY)}\n\nnext"
MADE = Script((SUMMARY,), prompt_tokens=1990, cached_tokens=1000)
NEXT = "And so on"
LONG = "word " * 400
KEY = "sk-1234567890abcdef1234567890abcdef"
APIS = pytest.mark.parametrize("api", ["responses", "messages"])


def user(content):
    return {"role": "user", "content": content}


def said(content):
    return {"role": "assistant", "content": content}


OLD = [user("hello"), said(LONG), user("next")]


def compacting(api, **more):
    """Above 1,000 tokens."""
    if api == "responses":
        kind = {"type": "compaction", "compact_threshold": 1000}
        return {"context_management": [kind | more]}
    trigger = {"type": "input_tokens", "value": 1000}
    return {
        "context_management": {"edits": [{"type": "compact_20260112", "trigger": trigger} | more]}
    }


def texts(*parts):
    return [{"type": "text", "text": text} for text in parts]


def contents(gateway, at=-1):
    return [(each["role"], each["content"]) for each in gateway.backend.messages(at)]


@pytest.fixture(autouse=True)
def scripts(gateway):
    gateway.backend.scripts |= {
        "next": Script(("And on",), prompt_tokens=2000),
        "And?": Script(("That is all.",)),
        ASKED: Script((f" {SUMMARY}\n",)),
    }


async def ask(gateway, api, *turns, **params):
    return await kit.ask(gateway, api, *turns, **{"history": OLD, **params})


@APIS
async def test_a_prompt_above_the_threshold_is_compacted(gateway, api):
    """The next turn has the summary instead of what is before it."""
    rules = {"system": "Be brief."}
    if api == "responses":
        rules = {"instructions": "Be brief.", "seed": 7}
    given = {**compacting(api), **rules, "temperature": 0.5}
    reply = await same(gateway, api, MADE, NEXT, history=OLD, **given)
    assert (reply.kinds[0], len(reply.parts), reply.text) == ("compaction", 2, NEXT)
    assert contents(gateway) == [("system", "Be brief."), ("user", AFTER)]
    first, second = gateway.backend.requests
    assert (first.sampling.seed, first.sampling.temperature) == (rules.get("seed"), 0.5)
    assert first.sampling.max_tokens == 250
    assert first.request_id != second.request_id
    usage, context = reply.body["usage"], reply.response.context
    assert context.meter.prompt_tokens == 1990 + 11
    earlier = [OLD]
    if api == "responses":
        assert SUMMARY not in str(reply.body)
        assert usage["input_tokens"] == 1990 + 11
        assert usage["output_tokens"] == context.meter.completion_tokens
    else:
        assert reply.parts[0]["content"] == SUMMARY
        assert reply.end == "end_turn"
        assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (8, 3)
        made, answered = usage["iterations"]
        counted = made["type"], made["input_tokens"], made["cache_read_input_tokens"]
        assert counted == ("compaction", 990, 1000)
        assert (answered["type"], answered["output_tokens"]) == ("message", usage["output_tokens"])
        logged = completion_of(reply.body)["usage"]
        assert logged["prompt_tokens"] == 1990 + 11
        assert logged["prompt_tokens_details"] == {"cached_tokens": 1003}
        earlier += [[], [user([{"type": "unknown"}])]]
    for before in earlier:
        again = await goes_on(gateway, reply, before, **given)
        assert (len(again.parts), again.text) == (1, "That is all.")
        assert [content for _, content in contents(gateway)][1] == AFTER


async def test_a_prompt_is_compacted_above_the_threshold_or_without_room_for_the_response(gateway):
    gateway.backend.scripts["next"] = Script(("And on",))
    reply = await ask(gateway, "responses", **compacting("responses"))
    assert reply.kinds == ["message"]
    assert len(gateway.backend.requests) == 1
    gateway.backend.scripts["next"] = Script(("unused",), prompt_tokens=300)
    given = compacting("responses", compact_threshold=2000) | {"max_output_tokens": 3900}
    reply = await ask(gateway, "responses", SUMMARY, NEXT, **given)
    assert reply.kinds == ["compaction", "message"]


async def test_a_response_may_pause_after_the_summary(gateway):
    pausing = compacting("messages", pause_after_compaction=True)
    reply = await same(gateway, "messages", MADE, history=OLD, **pausing)
    assert (reply.kinds, reply.end) == (["compaction"], "compaction")
    usage = reply.body["usage"]
    assert [each["type"] for each in usage["iterations"]] == ["compaction"]
    assert usage["output_tokens"] == 0
    resumed = await ask(
        gateway, "messages", NEXT, history=[*OLD, *reply.turn], **compacting("messages")
    )
    assert contents(gateway) == [("user", AFTER)]
    assert (resumed.kinds, resumed.text) == (["text"], NEXT)
    # The client may decide what stays.
    await ask(gateway, "messages", NEXT, history=[*reply.turn, *OLD[2:]])
    assert contents(gateway) == [("user", texts(shown(SUMMARY), "next"))]


async def test_a_summary_may_be_demanded(gateway):
    wanted = {"compaction": {"type": "summarize", "instructions": "Keep the names."}}
    reply = await ask(gateway, "messages", MADE, max_tokens=100, **wanted)
    assert contents(gateway)[-1] == ("user", f"next\n\n{asked(100, 'Keep the names.')}")
    assert (reply.kinds, reply.end) == (["compaction"], "compaction")


async def test_instructions_are_part_of_the_request_for_the_summary(gateway):
    given = compacting("messages", instructions="Keep the names.")
    await ask(gateway, "messages", MADE, NEXT, **given)
    assert contents(gateway, 0)[-1] == ("user", asked(250, "Keep the names."))


def used(number, text):
    use = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {"a": number}}
    seen = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
    return [said([use]), user([seen])]


@APIS
async def test_another_key_does_not_get_what_a_summary_replaced(gateway, api):
    """In the Messages API, a client sees its text. A sealed one that is changed is left out."""
    reply = await ask(gateway, api, MADE, NEXT, **compacting(api))
    gateway.add_key(KEY, key_of(KEY))
    again = await ask(gateway, api, history=[*OLD, *reply.turn, kit.MORE], key=KEY)
    change = "left_out=input[3]" if api == "responses" else "as_text=messages[3].content[0]"
    assert again.own["x-toolgate-history"] == change
    if api == "messages":
        assert contents(gateway)[0] == ("user", shown(SUMMARY))
        return
    assert SUMMARY not in str(contents(gateway))
    text = reply.parts[0]["encrypted_content"]
    changed = reply.parts[0] | {"encrypted_content": text[:-8] + "AAAA" + text[-4:]}
    again = await ask(gateway, api, history=[said("Hi."), changed, kit.MORE])
    assert again.own["x-toolgate-history"] == "left_out=input[1]"
    assert [role for role, _ in contents(gateway)] == ["assistant", "user"]


async def test_neither_a_count_nor_a_block_without_a_summary_compacts(gateway):
    reply = await ask(gateway, "messages", path=COUNT, **compacting("messages"))
    assert reply.body["input_tokens"] == 2000
    assert not gateway.backend.requests
    turn = said([{"type": "compaction", "content": None}, *texts("Hi.")])
    reply = await ask(gateway, "messages", history=[user("hello"), turn, user("next")])
    assert contents(gateway) == [("user", "hello"), ("assistant", "Hi."), ("user", "next")]
    assert "x-toolgate-history" not in reply.own


CUT = {
    "cut": Script((SUMMARY,), finish="length"),
    "empty": Script(("",)),
    "reasoning only": Script(("<think>Hm.</think>",)),
}
COMPACTED = {
    "above a threshold": ("responses", compacting("responses")),
    "in the messages API": ("messages", compacting("messages")),
    "by a trigger": ("responses", {"history": [*OLD, TRIGGER]}),
    "by its path": ("responses", {"path": COMPACT}),
}


async def test_an_incomplete_summary_is_an_error(gateway):
    del gateway.backend.scripts[ASKED]
    for (way, (api, given)), (name, script) in product(COMPACTED.items(), CUT.items()):
        gateway.backend.requests.clear()
        failed = await kit.ask(gateway, api, script, **{"history": OLD, **given})
        assert failed.failure == (502, "compaction_failed"), (way, name)
        assert len(gateway.backend.requests) == 1


def called(call_id):
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}"}


HISTORY = [
    {"role": "developer", "content": "Be brief."},
    user("hello"),
    said("Hi."),
    user("Look."),
    called("c1"),
    kit.result("responses", "c1", "Seen."),
    said("A bridge."),
]


async def compacted(gateway, history=HISTORY, **params):
    """The output of `/responses/compact`. OpenAI's model of it has no messages of users, which
    OpenAI's documentation has."""
    reply = await kit.ask(gateway, "responses", history=history, path=COMPACT, **params)
    assert reply.status == 200, reply.response.bodies
    output = reply.body["output"]
    made = [item for item in output if item["type"] != "message"]
    CompactedResponse.model_validate({**reply.body, "output": made}, strict=True)
    return output


async def test_a_conversation_is_compacted_and_the_output_is_the_next_input(gateway):
    gateway.add_key(KEY, key_of(KEY, tpm=100_000))
    given = {"path": COMPACT, "tools": [LOOK], "key": KEY}
    reply = await kit.ask(gateway, "responses", history=HISTORY, **given)
    body, context = reply.body, reply.response.context
    assert body["object"] == "response.compaction"
    *kept, item = body["output"]
    assert [(each["role"], each["content"][0]["text"]) for each in kept] == [
        ("developer", "Be brief."),
        ("user", "hello"),
        ("user", "Look."),
    ]
    assert item["type"] == "compaction"
    assert SUMMARY not in str(body)
    assert body["usage"]["input_tokens"] == context.meter.prompt_tokens == 11
    assert body["usage"]["output_tokens"] == context.meter.completion_tokens > 0
    charged = context.meter.used_tokens()
    assert (charged.input, charged.output) == (11, context.meter.completion_tokens)
    [sent] = gateway.backend.requests
    assert contents(gateway)[-1] == ("user", ASKED)
    assert [role for role, _ in contents(gateway)[:-1]] == [
        "system", "user", "assistant", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert sent.sampling.max_tokens == 512
    assert sent.enforcement is not None
    assert (sent.enforcement.choice, sent.enforcement.reasoning) == ("none", "off")

    again = await kit.ask(gateway, "responses", history=[*body["output"], user("next")], key=KEY)
    assert contents(gateway) == [
        ("system", texts("Be brief.")),
        ("user", texts("hello")),
        ("user", texts("Look.")),
        ("user", shown(SUMMARY)),
        ("assistant", "A bridge."),
        ("user", "next"),
    ]
    assert "x-toolgate-history" not in again.own


async def test_a_call_without_a_result_stays(gateway):
    gateway.backend.scripts[f"Again.\n\n{ASKED}"] = Script((SUMMARY,))
    output = await compacted(gateway, [*HISTORY, user("Again."), called("c2")])
    history = [*output, kit.result("responses", "c2", "Seen.")]
    await kit.ask(gateway, "responses", "Another bridge.", history=history)
    call, seen = gateway.backend.messages()[-2:]
    assert call["tool_calls"][0]["id"] == seen["tool_call_id"]
    assert contents(gateway)[-3] == ("user", shown(SUMMARY))


async def test_a_second_summary_replaces_the_first_one(gateway):
    first = await compacted(gateway)
    gateway.backend.scripts[ASKED] = Script(("They talked again.",))
    second = await compacted(gateway, [*first, user("Go on."), said("On.")])
    assert ("user", shown(SUMMARY)) in contents(gateway)
    assert [each["type"] for each in second].count("compaction") == 1
    await kit.ask(gateway, "responses", history=[*second, user("next")])
    assert SUMMARY not in str(contents(gateway))
    assert ("user", shown("They talked again.")) in contents(gateway)


async def test_a_stored_response_is_compacted_and_continued_by_its_id(gateway):
    first = (await kit.ask(gateway, "responses", history=[*HISTORY, user("next")])).body["id"]
    body = {"model": "tiny", "previous_response_id": first}
    output = (await gateway.ask(body, path=COMPACT)).json["output"]
    assert output[-1]["type"] == "compaction"
    second = await kit.ask(gateway, "responses", history=[TRIGGER], previous_response_id=first)
    assert second.kinds == ["compaction"]
    before = second.body["id"]
    await kit.ask(gateway, "responses", said="next", previous_response_id=before)
    assert ("user", shown(SUMMARY)) in contents(gateway)
    assert ("assistant", "Hi.") not in contents(gateway)
    path = f"{PATHS['responses']}/{before}/input_items"
    assert "compaction_trigger" not in str((await gateway.ask(b"", path=path, method="GET")).json)


async def test_a_trigger_is_answered_by_the_summary_alone(gateway):
    reply = await same(gateway, "responses", history=[*HISTORY, TRIGGER], tools=[LOOK])
    assert reply.kinds == ["compaction"]
    assert reply.body["usage"]["input_tokens"] == 11
    kept = [each for each in HISTORY if each.get("role") in ("user", "developer")]
    await kit.ask(gateway, "responses", history=[*kept, *reply.turn, user("next")])
    assert ("user", shown(SUMMARY)) in contents(gateway)


async def test_an_error_of_the_backend_is_an_error_of_the_compaction(gateway):
    gateway.backend.scripts[ASKED] = Script((SUMMARY,), error_after=1)
    failed = await kit.ask(gateway, "responses", history=HISTORY, path=COMPACT)
    assert failed.failure == (500, "enforcement_failed")


async def test_both_generations_count_under_the_limits_of_a_key(gateway):
    gateway.add_key(KEY, key_of(KEY, tpm=4000))
    turns = MADE, Script((NEXT,), prompt_tokens=3000)
    given = {"max_output_tokens": 100, "key": KEY, **compacting("responses")}
    refused = await ask(gateway, "responses", *turns, **given)
    assert refused.failure == (429, "rate_limit_exceeded")


async def test_a_lost_request_is_compacted_again_at_another_backend(gateway, monkeypatch):
    url = gateway.backend.url.replace("127.0.0.1", "localhost")
    other = row("b", group="tiny", api_base=url, api_key=KEY_OF_BACKEND)
    use(monkeypatch, ours(gateway.backend), other)
    turns = SUMMARY, Script(("x",), break_after=0), SUMMARY, NEXT
    reply = await ask(gateway, "responses", *turns, stream=True, **compacting("responses"))
    assert reply.kinds == ["compaction", "message"]
    assert len(gateway.backend.requests) == 4
    assert reply.response.context.meter.prompt_tokens == 22


def test_other_providers_get_a_summary_as_text_or_not_at_all():
    """Not if it is sealed."""
    item = {"type": "compaction", "encrypted_content": "x"}
    assert RESPONSES.portable({"input": [OLD[0], item, OLD[2]]})["input"] == [OLD[0], OLD[2]]
    body = MESSAGES.portable({"messages": [OLD[0], said([item | {"content": SUMMARY}])]})
    assert body["messages"][1]["content"] == texts(SUMMARY)


USES = "clear_tool_uses_20250919"
ONE = {"type": "tool_uses", "value": 1}
CLEARING = {"context_management": {"edits": [{"type": USES, "trigger": ONE, "keep": ONE}]}}
SEEN = [user("Look."), *used(1, "Saw 1."), *used(2, "Saw 2.")]


async def test_the_model_sees_the_edited_conversation_and_a_count_has_it(gateway):
    gateway.backend.scripts["Saw 2."] = Script(("Done.",))
    reply = await same(gateway, "messages", history=SEEN, **CLEARING)
    results = [each for each in gateway.backend.messages() if each["role"] == "tool"]
    assert [each["content"] for each in results] == [CLEARED, "Saw 2."]
    applied = {"type": USES, "cleared_tool_uses": 1, "cleared_input_tokens": 0}
    assert reply.body["context_management"] == {"applied_edits": [applied]}
    gateway.backend.scripts["Saw 2."] = Script(("Done.",))
    for edits, more in (
        (CLEARING, {"context_management": {"original_input_tokens": 11}}),
        ({}, {}),
    ):
        reply = await ask(gateway, "messages", history=SEEN, path=COUNT, **edits)
        assert reply.body == {"input_tokens": 11, **more}
        assert (CLEARED in gateway.backend.counts[-1].model_dump_json()) is bool(edits)


async def test_a_conversation_beyond_the_context_goes_on(gateway, monkeypatch):
    """Without an edit it would be refused, so the edit applies before its trigger is reached."""
    bounds = {"max_model_len": 400, "max_token_bytes": 4}
    info = gateway.backend.info
    limits = info.limits.model_copy(update=bounds)
    monkeypatch.setattr(gateway.backend, "info", info.model_copy(update={"limits": limits}))
    gateway.backend.scripts["Saw 2."] = Script(("Done.",))
    given = {"history": [user("Look."), *used(1, LONG), *used(2, "Saw 2.")], "max_tokens": 10}
    refused = await ask(gateway, "messages", **given)
    assert refused.failure == (400, "context_length_exceeded")
    edits = {"edits": [{"type": USES, "keep": ONE}]}
    reply = await ask(gateway, "messages", context_management=edits, **given)
    [applied] = reply.body["context_management"]["applied_edits"]
    assert applied["cleared_input_tokens"] > 400
