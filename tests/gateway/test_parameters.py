"""Parameters with an effect in the engine, through the whole stack."""

import json
import re

import jsonschema
import pytest

from tests import tools
from tests.models.tiny_random import CONTEXT
from tests.support.effort import sampled
from toolgate_proxy.backend_client.event_stream import SseParser

from . import kit

pytestmark = kit.both_ways
USER = [{"role": "user", "content": "Tell me a story."}]
THOUGHT = "The light is in the kitchen"
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
OFFERED = pytest.mark.parametrize(
    "offered", [{}, {"tools": [tools.WEATHER]}], ids=["without tools", "with tools"]
)


@pytest.fixture
def plain(common):
    return {**common, "messages": USER, "reasoning_effort": "none", "logit_bias": {}}


@pytest.fixture
def calling(common):
    return {**common, "messages": USER, "tools": tools.ALL, "tool_choice": "required"}


def test_a_model_has_the_context_length_of_its_engine(http):
    shown = http.get("/v1/models/tiny").json()
    for name in ("max_model_len", "context_length", "context_window", "max_input_tokens"):
        assert shown[name] == CONTEXT
    assert shown["max_output_tokens"] == CONTEXT // 8
    assert shown in http.get("/v1/models").json()["data"]


def test_choices_at_temperature_0_are_equal(http, plain):
    """vLLM refuses n > 1 at temperature 0, OpenAI's API does not."""
    [found] = kit.both_forms(http, [{**plain, "temperature": 0, "n": 3, "max_tokens": 20}])
    assert found == [found[0]] * 3


# --- what ends the content ---


def test_a_stop_string_ends_the_content(http, plain):
    request = {**plain, "max_tokens": 200, "ignore_eos": True}
    [full] = kit.outputs(http, request)
    assert full.content
    stop = full.content[60:63]
    [[cut]] = kit.both_forms(http, [{**request, "stop": [stop]}])
    assert cut.finish_reason == "stop"
    assert cut.content == full.content[: full.content.index(stop)]


@OFFERED
def test_stop_token_ids_end_the_content(http, plain, offered):
    request = {**plain, "max_tokens": 80, **offered, "return_token_ids": True, "ignore_eos": True}
    [full] = kit.ask(http, request)
    tokens = [*(full.token_ids or ())]
    stop = next(token for token in tokens[10:] if token not in tokens[:10])
    for stream in (False, True):
        [cut] = kit.ask(http, {**request, "stop_token_ids": [stop]}, stream=stream)
        assert (cut.answer.finish, cut.stopped_by) == ("stop", stop)
        assert cut.token_ids == tokens[: tokens.index(stop) + 1]
        assert full.answer.text.startswith(cut.answer.text)


def test_stop_token_ids_do_not_end_calls(http, calling):
    every = {"stop_token_ids": [*range(300, 2000)], "reasoning_budget": 10}
    [answer] = kit.outputs(http, calling | every)
    kit.check(answer, tools.ALL)
    assert answer.calls


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_allowed_token_ids_and_repetition_detection_take_effect(http, plain, stream):
    def made(**extra):
        request = {**plain, "max_tokens": 20, "return_token_ids": True, **extra}
        [reply] = kit.ask(http, request, stream=stream)
        ids = reply.token_ids or ()
        return {*ids}, len(ids), reply.answer.finish

    assert made(allowed_token_ids=[300, 301]) == ({300, 301}, 20, "length")
    found = {"max_pattern_size": 1, "min_pattern_size": 1, "min_count": 5}
    same, count, reason = made(allowed_token_ids=[300], repetition_detection=found)
    assert (same, reason) == ({300}, "stop")
    assert count < 20


@OFFERED
def test_bad_words_do_not_occur(http, plain, offered):
    liked = {"logit_bias": {str(kit.token_of(" the")): 100}}
    for banned, comes in (([], True), (["the"], False)):
        request = {**plain, "max_tokens": 30, **liked, **offered, "bad_words": banned}
        [answer] = kit.outputs(http, request)
        assert (" the" in (answer.content or "")) is comes


# --- logprobs ---


def test_logprobs_spell_the_content_in_both_forms(http, common):
    request = {**common, "messages": USER, "logprobs": True, "top_logprobs": 2, "max_tokens": 40}
    request |= {"reasoning_effort": "none"}
    [whole], [streamed] = (kit.ask(http, request, stream=stream) for stream in (False, True))
    spelled = b"".join(bytes(token["bytes"] or []) for token in whole.logprobs)
    assert spelled.decode(errors="replace").rstrip("�") == whole.answer.text.rstrip("�")
    assert all(len(each["top_logprobs"]) == 2 and each["logprob"] <= 0 for each in whole.logprobs)
    told = [[token["token"] for token in each.logprobs] for each in (whole, streamed)]
    assert told[0] == told[1]
    assert told[0]


def test_logprobs_of_calls_spell_the_calls(http, calling):
    request = {**calling, "logprobs": True, "top_logprobs": 1, "reasoning_effort": "none"}
    [reply] = kit.ask(http, request)
    logprobs = reply.body["choices"][0]["logprobs"]
    assert len(logprobs["tool_calls"]) == len(reply.answer.calls) > 0
    for entry, made in zip(logprobs["tool_calls"], reply.answer.calls, strict=True):
        spelled = b"".join(bytes(token["bytes"]) for token in entry["content"]).decode()
        assert spelled.startswith(f'\n{{"name": "{made.name}", "arguments": {made.arguments}')
    assert logprobs["content"] == []


# --- the prompt ---


def test_token_ids_and_prompt_are_returned_on_request(http, plain):
    request = {**plain, "max_tokens": 6, "logprobs": True}
    request |= {
        "return_prompt_text": True,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
        "logprob_token_ids": [300, 301],
        "request_id": "mine",
    }
    told = kit.post(http, {**request, "prompt_logprobs": 1}).json()
    assert told["id"] == "chatcmpl-mine"
    assert USER[0]["content"] in told["prompt_text"]
    first, *rest = told["prompt_logprobs"]
    assert first is None
    ids = told["prompt_token_ids"]
    assert all(str(token) in at for token, at in zip(ids[1:], rest, strict=True))
    [choice] = told["choices"]
    for token, at in zip(choice["token_ids"], choice["logprobs"]["content"], strict=False):
        assert at["token"] == f"token_id:{token}"
        assert {each["token"] for each in at["top_logprobs"]} == {"token_id:300", "token_id:301"}
    chunk = json.loads(SseParser().feed(kit.post(http, request | {"stream": True}).content)[0])
    assert chunk["prompt_text"] == told["prompt_text"]
    assert chunk["id"] == told["id"]  # the client's own, even twice


def test_reasoning_of_the_turn_reaches_the_prompt(http, common):
    turn = {"role": "assistant", "reasoning_content": THOUGHT, "tool_calls": [CALL]}
    request = {**common, "messages": [*USER, turn, RESULT], "max_tokens": 4}
    told = kit.post(http, {**request, "return_prompt_text": True}).json()
    assert f"<think>\n{THOUGHT}\n</think>" in told["prompt_text"]


def test_continue_final_message_with_echo_returns_the_whole_message(http, plain):
    messages = [*USER, {"role": "assistant", "content": "Once upon a time"}]
    request = {**plain, "messages": messages, "max_tokens": 10, "reasoning_effort": None}
    request |= {"continue_final_message": True, "echo": True, "return_token_ids": True}
    told = kit.post(http, request).json()
    assert told["choices"][0]["message"]["content"].startswith("Once upon a time")
    assert len(told["prompt_token_ids"]) == told["usage"]["prompt_tokens"]


def test_truncate_prompt_tokens_keeps_that_many(http, plain):
    long = [{"role": "user", "content": "word " * 300}]
    request = {**plain, "messages": long, "max_tokens": 2, "return_token_ids": True}
    ids = kit.post(http, request).json()["prompt_token_ids"]
    for side, kept in (("left", ids[-30:]), ("right", ids[:30])):
        extra = {"truncate_prompt_tokens": 30, "truncation_side": side}
        assert kit.post(http, request | extra).json()["prompt_token_ids"] == kept


# --- formats ---

SCHEMA = tools.RANGE["function"]["parameters"]
FORMATS = {
    "json_object": ({"type": "json_object"}, {"type": "object"}),
    "json_schema": (
        {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}},
        SCHEMA,
    ),
}


@sampled("name,beside", FORMATS, [(a, b) for a in (0, 1) for b in ("none", "high")], one_in=2)
def test_the_content_matches_response_format_or_the_calls_match_their_tools(
    http, common, name, beside
):
    """`beside`: whether there are tools, and the effort."""
    with_tools, effort = beside
    response_format, schema = FORMATS[name]
    request = {**common, "messages": USER, "response_format": response_format}
    request |= {"reasoning_effort": effort, "reasoning_budget": 20}
    if with_tools:
        request["tools"] = tools.ALL
    ended = 0
    for [answer] in kit.both_forms(http, [{**request, "seed": seed} for seed in range(3)]):
        kit.check(answer, tools.ALL)
        assert not (answer.content and answer.calls)
        assert with_tools or not answer.calls
        if answer.finish_reason == "stop":
            jsonschema.validate(json.loads(answer.content or ""), schema)
        ended += answer.finish_reason != "length"
    assert ended


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ({"choice": ["no", "nothing", "not at all"]}, "no|nothing|not at all"),
        ({"regex": "[0-9]{3}-[a-f]+"}, "[0-9]{3}-[a-f]+"),
    ],
    ids=["choice", "regex"],
)
def test_structured_outputs_are_enforced(http, common, form, pattern, thinking):
    extra = {"enable_thinking": thinking, "structured_outputs": form, "reasoning_budget": 10}
    [[answer]] = kit.both_forms(http, [{**common, "messages": USER, **extra}])
    assert bool(answer.reasoning) is thinking
    assert answer.finish_reason == "stop"
    assert re.fullmatch(pattern, answer.content or "")
