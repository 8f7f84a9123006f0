"""Events and bodies of Messages and Responses beyond what they add up to (test_answers.py): when
calls begin and end, what a cut call and an error leave, usage, fields that repeat the request."""

import json

import pytest
from orjson import dumps

from tests.support.apis import messages_api, responses_api
from tests.support.apis.chat_events import answer_to, answered, events, fed
from tests.support.apis.messages_api import SEAL, BlockGrammar
from tests.support.apis.read_responses import read_events
from tests.support.apis.responses_api import check_event, check_response
from tests.support.servers.script import call
from toolgate_core.errors import BackendLost
from toolgate_proxy.api.messages.opaque import verified
from toolgate_proxy.api.surface import Client
from toolgate_proxy.api.surfaces import MESSAGES
from toolgate_proxy.features.compaction.edits import AppliedEdit, ClearThinking, ClearToolUses
from toolgate_proxy.litellm_host.callbacks.response_forms import completion_of

from .kit import APIS, each_api, field_of, function, parsed, rows, writer_of

LONG = {"where": "north of the old stone bridge, past the second mill, left at the oak tree"}
CUT = call("look", LONG)[:60]
THINKING = {"type": "enabled", "budget_tokens": 1024}
REASONED = "<think>\nLet me see.\n</think>\n\nHello"
TYPED = ("responses", "messages")
EAGER = {
    "tools": [
        {**function("messages", name), "eager_input_streaming": True} for name in ("look", "walk")
    ]
}


def tools(api):
    return {"tools": [function(api, name) for name in ("look", "walk")]}


def made(api, body, text, finish="stop", **how):
    """The events of the stream, and the whole response."""
    data, whole = answered(parsed(api, body), events(text, finish=finish, **how))
    return read_events(data), whole


def types(sent, at=None):
    return [
        event["type"].removeprefix("response.")
        for event in sent
        if at is None or event.get("output_index", event.get("index")) == at
    ]


@each_api()
def test_usage_counts_cached_and_reasoning_tokens(api):
    body = {"thinking": THINKING} if api == "messages" else {}
    _, whole = answered(parsed(api, body), events(REASONED))
    usage = whole["usage"]
    if api == "messages":
        counts = [usage[f"{each}_input_tokens"] for each in ("cache_read", "cache_creation")]
        assert (usage["input_tokens"], counts) == (3, [2, 0])
        reasoning = usage["output_tokens_details"]["thinking_tokens"]
        assert reasoning < usage["output_tokens"]
        sent, _ = made(api, body, REASONED)
        start = sent[0]["message"]["usage"]
        assert start["input_tokens"] + start["cache_read_input_tokens"] == 5
    else:
        first, last = ("prompt", "completion") if api == "chat" else ("input", "output")
        assert usage[f"{first}_tokens"] == 5
        assert usage[f"{first}_tokens_details"]["cached_tokens"] == 2
        assert usage["total_tokens"] == 5 + usage[f"{last}_tokens"]
        reasoning = usage[f"{last}_tokens_details"]["reasoning_tokens"]
    assert reasoning == 7


@pytest.mark.parametrize("eager", [False, True])
def test_a_cut_call_of_messages_is_never_shown_as_whole(eager):
    """Clients parse incomplete input, so that it looks like that of a call."""
    sent, whole = made("messages", EAGER if eager else tools("messages"), CUT, "length")
    assert whole["toolgate"] == {"last_call": "cut"}
    assert "content_block_stop" not in types(sent)
    assert types(sent).count("content_block_start") == eager


def test_a_cut_call_of_responses_is_never_said_to_be_complete():
    """Clients execute a call when they see its end."""
    sent, whole = made("responses", tools("responses"), call("walk", {}) + "\n" + CUT, "length")
    first, second = whole["output"]
    assert (first["status"], second["status"]) == ("completed", "incomplete")
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(second["arguments"])
    ends = ("function_call_arguments.done", "output_item.done")
    assert {each["output_index"] for each in sent if each["type"].endswith(ends)} == {0}
    assert sent[-1]["type"] == "response.incomplete"
    assert (whole["status"], whole["completed_at"]) == ("incomplete", None)
    assert whole["incomplete_details"] == {"reason": "max_output_tokens"}
    assert whole["toolgate"] == {"last_call": "cut"}


CUSTOM = {"type": "custom", "name": "shell"}
SEARCH = {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    ("tool", "name", "arguments", "between"),
    rows("tables")["kinds of calls"],
    ids=lambda value: value["type"] if isinstance(value, dict) and "type" in value else "",
)  # fmt: skip
def test_calls_of_other_kinds_have_their_own_events(tool, name, arguments, between):
    text = call(name, arguments)
    sent, whole = made("responses", {"tools": [tool]}, text)
    assert types(sent, 0) == ["output_item.added", *between, "output_item.done"]
    begun, item = sent[2]["item"], whole["output"][0]
    assert begun["status"] == "in_progress"
    prefix = {"shell": "sh", "custom": "ctc", "tool_search": "tsc", "local_shell": "lsh"}
    assert item["id"].startswith(f"{prefix.get(tool['type'], 'apc')}_")
    if tool["type"] in ("shell", "apply_patch"):
        member = "action" if tool["type"] == "shell" else "operation"
        empty = {"commands": []} if tool["type"] == "shell" else {"diff": ""}
        assert begun[member] == item[member] | empty
    if tool in (CUSTOM, SEARCH):  # the others are left out
        cut, _ = made("responses", {"tools": [tool]}, text[: text.index("}")], "length")
        assert not any(each.endswith(".done") for each in types(cut))


@pytest.mark.parametrize("number", ["1" + "0" * 30, "-1e400", "0.5"])
def test_numbers_of_a_search_are_numbers_of_json(number):
    text = call("tool_search", {"limit": 0}).replace("0", number)
    sent, whole = made("responses", {"tools": [SEARCH]}, text)
    assert responses_api.accumulated(sent) == whole["output"]
    found = json.loads(json.dumps(whole["output"][0]["arguments"]), parse_constant=pytest.fail)
    assert isinstance(found["limit"], float)


@pytest.mark.parametrize("number", ["-4E97775", "1" + "0" * 30, "9" * 5000, "-9223372036854775809"])
def test_numbers_of_messages_of_any_size_keep_their_spelling(number):
    text = call("look", {"where": "X"}).replace('"X"', number)
    sent, whole = made("messages", tools("messages"), text)
    deltas = [event["delta"] for event in sent if event["type"] == "content_block_delta"]
    given = "".join(delta["partial_json"] for delta in deltas)
    assert given.replace(" ", "") == f'{{"where":{number}}}'
    assert f'"input":{{"where":{number}}}'.encode() in dumps(whole)
    [logged] = completion_of(whole)["choices"][0]["message"]["tool_calls"]
    assert number in logged["function"]["arguments"]


@pytest.mark.parametrize("eager", [False, True])
def test_input_is_streamed_before_it_is_complete_only_for_eager_tools(eager):
    asked = parsed("messages", EAGER if eager else tools("messages"))
    answer, sent = answer_to(asked), events(call("look", LONG))
    data = writer_of(asked).response(answer, "tiny").events(fed(answer, sent[: len(sent) // 2]))
    assert ("content_block_delta" in types(read_events(data))) is eager


@pytest.mark.parametrize(("betas", "given", "eager"), rows("tables")["eager"])
def test_the_tool_decides_on_eager_streaming_before_the_beta_header(betas, given, eager):
    client = Client({"anthropic-beta": betas}, SEAL)
    tool = {**function("messages"), "eager_input_streaming": given}
    asked = parsed("messages", {"tools": [tool]}, client=client)
    assert field_of(asked, "eager") == ({"look"} if eager else set())


@pytest.mark.parametrize("display", [None, "omitted"])
def test_the_signature_has_the_thinking(display):
    thinking = THINKING | ({"display": display} if display else {})
    _, whole = made("messages", {"thinking": thinking}, REASONED)
    block = whole["content"][0]
    assert block["thinking"] == ("" if display else "Let me see.")
    assert verified(SEAL, block["thinking"], block["signature"], "x") == "Let me see."
    assert "Let me see" not in block["signature"]


def test_reasoning_and_logprobs_of_responses_are_where_the_request_wants_them():
    _, whole = made("responses", {}, REASONED)
    reasoning = whole["output"][0]
    assert reasoning["summary"] == []
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Let me see."}]
    sent, whole = made("responses", {"reasoning": {"summary": "detailed"}}, REASONED)
    reasoning = whole["output"][0]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "Let me see."}]
    assert "content" not in reasoning
    assert {"reasoning_summary_part.added", "reasoning_summary_text.done"} <= {*types(sent)}
    assert not [name for name in types(sent) if "reasoning_text" in name]
    body = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    sent, whole = made("responses", body, "Hello there, you", logprobs=True)
    tokens = [token["token"] for token in whole["output"][0]["content"][0]["logprobs"]]
    assert "".join(tokens) == "Hello there, you"
    deltas = [event for event in sent if event["type"] == "response.output_text.delta"]
    assert [each["token"] for event in deltas for each in event["logprobs"]] == tokens
    done = next(event for event in sent if event["type"] == "response.output_text.done")
    assert [each["token"] for each in done["logprobs"]] == tokens


@pytest.mark.parametrize("text", ["Hello there", "<think>hm", CUT])
@pytest.mark.parametrize("api", TYPED)
def test_an_error_in_a_stream_ends_it(api, text):
    """Without the end of what had begun: a client would use it."""
    body = EAGER | {"thinking": THINKING} if api == "messages" else tools(api)
    asked = parsed(api, body)
    answer = answer_to(asked)
    stream = writer_of(asked).response(answer, "tiny")
    data = stream.events(fed(answer, events(text, finish="length")[:-2]))
    error = APIS[api].error(BackendLost("The backend is gone."), "req_1")["error"]
    *sent, failed = read_events(data + stream.failed(error))
    if api == "messages":
        grammar = BlockGrammar()
        for event in sent:
            grammar.add(event)
        assert failed["type"] == "error"
        assert failed["error"]["message"] == "The backend is gone."
        messages_api.check_error(failed)
        assert "content_block_stop" not in types(sent)
        return
    found = failed["response"]
    assert (failed["type"], found["status"]) == ("response.failed", "failed")
    assert found["error"] == {"code": BackendLost.code, "message": "The backend is gone."}
    assert responses_api.accumulated([*sent, failed]) == found["output"]
    assert [item["status"] for item in found["output"]] == ["incomplete"]
    check_event(failed)
    assert not [name for name in types(sent) if name.endswith(".done")]


def test_silence_of_messages_is_filled_with_pings():
    assert read_events(MESSAGES.keep_alive) == [{"type": "ping"}]


def test_applied_edits_are_shown():
    asked = parsed("messages", {"context_management": {"edits": []}})
    thinking, uses = "clear_thinking_20251015", "clear_tool_uses_20250919"
    applied = (
        AppliedEdit(ClearThinking(thinking), 2, 100),
        AppliedEdit(ClearToolUses(uses), 3, 5000),
    )
    _, whole = answered(asked, events("Hello"))
    assert whole["context_management"] == {"applied_edits": []}
    [feature] = writer_of(asked).features
    feature.shortening.applied = applied
    data, whole = answered(asked, events("Hello"))
    assert whole["context_management"]["applied_edits"] == [
        {"type": thinking, "cleared_thinking_turns": 2, "cleared_input_tokens": 100},
        {"type": uses, "cleared_tool_uses": 3, "cleared_input_tokens": 5000},
    ]
    assert read_events(data)[-2]["context_management"] == whole["context_management"]
    assert "context_management" not in made("messages", {}, "Hello")[1]


LOOK = function("responses")
NAMED_FORMAT = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}


def test_a_response_repeats_the_request_or_has_the_defaults():
    given, always, defaults = (rows("tables")[name] for name in ("given", "always", "defaults"))
    body = {**given, "text": {"format": NAMED_FORMAT}, "tools": [LOOK]}
    _, whole = made("responses", body, call("look", {}))
    shown = {**NAMED_FORMAT, "description": None, "strict": False}
    more = {"format": shown, "verbosity": "medium"}
    tools = [{**LOOK, "description": None, "strict": None}]
    expected = {**given, **always, "text": more, "tools": tools}
    assert {name: whole[name] for name in expected} == expected
    check_response(whole)
    inner = {"mode": "required", "tools": [{"type": "function", "function": {"name": "look"}}]}
    of_chat = {
        "max_tokens": 99,
        "response_format": {"type": "json_schema", "json_schema": NAMED_FORMAT},
        "tools": [{"type": "function", "function": {k: LOOK[k] for k in LOOK if k != "type"}}],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": inner},
    }
    _, whole = made("responses", of_chat, call("look", {}))
    check_response(whole)
    assert (whole["text"], whole["tools"], whole["max_output_tokens"]) == (more, tools, 99)
    named = [{"type": "function", "name": "look"}]
    assert whole["tool_choice"] == {"type": "allowed_tools", "mode": "required", "tools": named}
    _, whole = made("responses", {}, "Hello")
    assert {name: whole[name] for name in defaults} == defaults


@pytest.mark.parametrize(
    ("sent", "expected"),
    rows("tables")["repeated tools"],
    ids=lambda value: value["type"] if isinstance(value, dict) and "type" in value else "",
)
def test_a_response_repeats_the_tools_that_were_offered(sent, expected):
    _, whole = made("responses", {"tools": [sent]}, "Hello")
    check_response(whole)
    if expected is None:
        assert whole["tools"] == []
        return
    [shown] = whole["tools"]
    assert {name: shown[name] for name in expected} == expected
    if sent["type"] == "namespace":
        assert shown["tools"][0]["name"] == sent["tools"][0]["name"]
