"""Parameters with an effect in the engine, through the whole stack."""

from __future__ import annotations

import re
from typing import Any

import openai
import pytest
import tokenizers

from tests import tools
from tests.gateway.requests import answers
from tests.models import tiny_model

USER = [{"role": "user", "content": "Tell me a story."}]


@pytest.fixture
def plain(common: dict[str, Any]) -> dict[str, Any]:
    return {**common, "messages": USER, "reasoning_effort": "none", "logit_bias": {}}


def test_choices_at_temperature_0_are_equal(client: openai.OpenAI, plain: dict[str, Any]) -> None:
    """vLLM refuses n > 1 at temperature 0, OpenAI's API does not."""
    request = {**plain, "temperature": 0, "n": 3, "max_tokens": 20}
    found = answers.from_whole(client.chat.completions.create(**request))
    assert len(found) == 3
    assert found[0] == found[1] == found[2]
    assert found == answers.from_chunks([*client.chat.completions.create(**request, stream=True)])


@pytest.mark.parametrize("offered", [[], [tools.WEATHER]], ids=["without tools", "with tools"])
def test_stop_token_ids_end_the_content(
    client: openai.OpenAI, plain: dict[str, Any], offered: list[Any]
) -> None:
    request = {**plain, "max_tokens": 80}
    if offered:
        request["tools"] = offered
    ids = {"return_token_ids": True, "ignore_eos": True}
    full = client.chat.completions.create(**request, extra_body=ids).choices[0]
    tokens: list[int] = full.token_ids  # type: ignore[attr-defined]
    stop = next(token for token in tokens[10:] if token not in tokens[:10])
    extra = {**ids, "stop_token_ids": [stop]}
    whole = client.chat.completions.create(**request, extra_body=extra).choices[0]
    assert whole.finish_reason == "stop"
    assert whole.stop_reason == stop  # type: ignore[attr-defined]
    assert whole.token_ids == tokens[: tokens.index(stop) + 1]  # type: ignore[attr-defined]
    assert (full.message.content or "").startswith(whole.message.content or "")
    [streamed] = answers.from_chunks(
        [*client.chat.completions.create(**request, extra_body=extra, stream=True)]
    )
    assert streamed.content == whole.message.content


def test_stop_token_ids_do_not_end_calls(client: openai.OpenAI, common: dict[str, Any]) -> None:
    request = {**common, "messages": USER, "tools": tools.ALL, "tool_choice": "required"}
    every = list(range(300, 2000))
    request["extra_body"] = {"stop_token_ids": every, "reasoning_budget": 10}
    [whole] = answers.from_whole(client.chat.completions.create(**request))
    answers.check(whole, tools.ALL)
    assert whole.calls


@pytest.mark.parametrize("offered", [[], [tools.WEATHER]], ids=["without tools", "with tools"])
def test_bad_words_do_not_occur(
    client: openai.OpenAI, plain: dict[str, Any], offered: list[Any]
) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(tiny_model() / "tokenizer.json"))
    [the] = tokenizer.encode(" the", add_special_tokens=False).ids
    request = {**plain, "max_tokens": 30, "logit_bias": {str(the): 100}}
    if offered:
        request["tools"] = offered
    for banned, comes in (([], True), (["the"], False)):
        answer = client.chat.completions.create(**request, extra_body={"bad_words": banned})
        assert (" the" in (answer.choices[0].message.content or "")) is comes


def test_continue_final_message_with_echo_returns_the_whole_message(
    client: openai.OpenAI, plain: dict[str, Any]
) -> None:
    messages = [*USER, {"role": "assistant", "content": "Once upon a time"}]
    request = {**plain, "messages": messages, "max_tokens": 10, "reasoning_effort": None}
    extra = {"continue_final_message": True, "echo": True, "return_token_ids": True}
    answer = client.chat.completions.create(**request, extra_body=extra)
    assert (answer.choices[0].message.content or "").startswith("Once upon a time")
    prompt = answer.prompt_token_ids  # type: ignore[attr-defined]
    assert answer.usage
    assert len(prompt) == answer.usage.prompt_tokens


def test_continue_final_message_inside_a_call_is_refused(
    client: openai.OpenAI, plain: dict[str, Any]
) -> None:
    messages = [*USER, {"role": "assistant", "content": 'Well <tool_call>\n{"name": "get'}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            **{**plain, "messages": messages, "tools": [tools.WEATHER]},
            extra_body={"continue_final_message": True},
        )
    assert refused.value.param == "continue_final_message"


def test_logprobs_of_calls_spell_the_calls(client: openai.OpenAI, common: dict[str, Any]) -> None:
    request = {**common, "messages": USER, "tools": tools.ALL, "tool_choice": "required"}
    request |= {"logprobs": True, "top_logprobs": 1, "reasoning_effort": "none"}
    answer = client.chat.completions.create(**request).choices[0]
    assert answer.logprobs
    told = answer.logprobs.tool_calls  # type: ignore[attr-defined]
    calls = answer.message.tool_calls or []
    assert len(told) == len(calls) > 0
    for entry, made in zip(told, calls, strict=True):
        assert made.type == "function"
        spelled = b"".join(bytes(token["bytes"]) for token in entry["content"]).decode()
        head = f'\n{{"name": "{made.function.name}", "arguments": '
        assert spelled.startswith(head + made.function.arguments)
    assert answer.logprobs.content == []


def test_legacy_functions_are_answered_with_a_function_call(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    request = {**common, "messages": USER, "reasoning_effort": "none"}
    answer = client.chat.completions.create(
        **request,
        functions=[tools.WEATHER["function"]],
        function_call={"name": "get_weather"},
    )
    message = answer.choices[0].message
    assert message.function_call is not None
    answers.check(
        answers.ChoiceOutput(calls=[(message.function_call.name, message.function_call.arguments)]),
        [tools.WEATHER],
    )


@pytest.mark.parametrize("mark", ["<tool_call>", "</think>", "failure"])
def test_special_tokens_of_calls_are_refused_in_stop_token_ids(
    client: openai.OpenAI, backend: Any, plain: dict[str, Any], mark: str
) -> None:
    marks = backend.get("/info").json()["marks"]
    token = marks["tokens"].get(mark) or marks[mark]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**plain, extra_body={"stop_token_ids": [token]})
    assert refused.value.param == "stop_token_ids"


def test_token_ids_and_prompt_are_returned_on_request(
    client: openai.OpenAI, plain: dict[str, Any]
) -> None:
    extra = {
        "prompt_logprobs": 1,
        "return_prompt_text": True,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
        "logprob_token_ids": [300, 301],
        "request_id": "mine",
    }
    request = {**plain, "max_tokens": 6, "logprobs": True}
    answer = client.chat.completions.create(**request, extra_body=extra)
    assert answer.id == "chatcmpl-mine"
    told: Any = answer.model_dump()
    ids = told["prompt_token_ids"]
    assert USER[0]["content"] in told["prompt_text"]
    first, *rest = told["prompt_logprobs"]
    assert first is None
    assert all(str(token) in at for token, at in zip(ids[1:], rest, strict=True))
    [choice] = told["choices"]
    for token, at in zip(choice["token_ids"], choice["logprobs"]["content"], strict=False):
        assert at["token"] == f"token_id:{token}"
        assert {each["token"] for each in at["top_logprobs"]} == {"token_id:300", "token_id:301"}
    streamed = dict.fromkeys(("prompt_logprobs",))
    chunks = [*client.chat.completions.create(**request, extra_body=extra | streamed, stream=True)]
    assert chunks[0].prompt_text == told["prompt_text"]  # type: ignore[attr-defined]
    again = client.chat.completions.create(**request, extra_body=extra)
    assert again.id == answer.id  # the client's own, even twice


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_allowed_token_ids_and_repetition_detection_take_effect(
    client: openai.OpenAI, plain: dict[str, Any], stream: bool
) -> None:
    def ask(**extra: Any) -> tuple[set[int], int, str | None]:
        request = {**plain, "max_tokens": 20, "stream": stream}
        got = client.chat.completions.create(
            **request, extra_body={"return_token_ids": True, **extra}
        )
        chunks: list[Any] = [*got] if stream else [got]
        choices = [choice for chunk in chunks for choice in chunk.choices]
        ids = [token for c in choices for token in getattr(c, "token_ids", None) or ()]
        return {*ids}, len(ids), choices[-1].finish_reason

    assert ask(allowed_token_ids=[300, 301]) == ({300, 301}, 20, "length")
    found = {"max_pattern_size": 1, "min_pattern_size": 1, "min_count": 5}
    same, count, reason = ask(allowed_token_ids=[300], repetition_detection=found)
    assert (same, reason) == ({300}, "stop")
    assert count < 20


def test_truncate_prompt_tokens_keeps_that_many(
    client: openai.OpenAI, plain: dict[str, Any]
) -> None:
    long = [{"role": "user", "content": "word " * 300}]
    request = {**plain, "messages": long, "max_tokens": 2}
    whole = client.chat.completions.create(**request, extra_body={"return_token_ids": True})
    ids: list[int] = whole.prompt_token_ids  # type: ignore[attr-defined]
    for side, kept in (("left", ids[-30:]), ("right", ids[:30])):
        extra = {"truncate_prompt_tokens": 30, "truncation_side": side, "return_token_ids": True}
        answer = client.chat.completions.create(**request, extra_body=extra)
        assert answer.prompt_token_ids == kept  # type: ignore[attr-defined]


@pytest.mark.parametrize("thinking", [False, True])
def test_structured_outputs_choice_and_regex_are_enforced(
    client: openai.OpenAI, common: dict[str, Any], thinking: bool
) -> None:
    request = {**common, "messages": USER, "extra_body": {"enable_thinking": thinking}}
    for form, pattern in (
        ({"choice": ["no", "nothing", "not at all"]}, "no|nothing|not at all"),
        ({"regex": "[0-9]{3}-[a-f]+"}, "[0-9]{3}-[a-f]+"),
    ):
        request["extra_body"] |= {"structured_outputs": form, "reasoning_budget": 10}
        [whole] = answers.from_whole(client.chat.completions.create(**request))
        chunks = [*client.chat.completions.create(**request, stream=True)]
        assert answers.from_chunks(chunks) == [whole]
        assert bool(whole.reasoning) is thinking
        assert whole.finish_reason == "stop"
        assert re.fullmatch(pattern, whole.content or "")


def test_an_invalid_regex_is_refused(client: openai.OpenAI, plain: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**plain, extra_body={"structured_outputs": {"regex": "("}})
    assert refused.value.param == "structured_outputs"
