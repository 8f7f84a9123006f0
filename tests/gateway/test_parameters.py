"""Parameters that act in the engine, through the whole stack."""

from __future__ import annotations

from typing import Any

import openai
import pytest
import tokenizers

from tests import tools
from tests.models import tiny_model

from . import answers

USER = [{"role": "user", "content": "Tell me a story."}]


@pytest.fixture
def plain(common: dict[str, Any]) -> dict[str, Any]:
    return {**common, "messages": USER, "reasoning_effort": "none", "logit_bias": {}}


def test_greedy_choices_are_equal(client: openai.OpenAI, plain: dict[str, Any]) -> None:
    """vLLM refuses n > 1 at temperature 0; OpenAI does not."""
    request = {**plain, "temperature": 0, "n": 3, "max_tokens": 20}
    found = answers.from_whole(client.chat.completions.create(**request))
    assert len(found) == 3
    assert found[0] == found[1] == found[2]
    assert found == answers.from_chunks([*client.chat.completions.create(**request, stream=True)])


@pytest.mark.parametrize("offered", [[], [tools.WEATHER]], ids=["without tools", "with tools"])
def test_stop_tokens_end_the_content(
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


def test_stop_tokens_leave_calls_alone(client: openai.OpenAI, common: dict[str, Any]) -> None:
    request = {**common, "messages": USER, "tools": tools.ALL, "tool_choice": "required"}
    every = list(range(300, 2000))
    request["extra_body"] = {"stop_token_ids": every, "reasoning_budget": 10}
    [whole] = answers.from_whole(client.chat.completions.create(**request))
    answers.check(whole, tools.ALL)
    assert whole.calls


@pytest.mark.parametrize("offered", [[], [tools.WEATHER]], ids=["without tools", "with tools"])
def test_bad_words_do_not_come(
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


def test_a_message_that_is_gone_on_with(client: openai.OpenAI, plain: dict[str, Any]) -> None:
    messages = [*USER, {"role": "assistant", "content": "Once upon a time"}]
    request = {**plain, "messages": messages, "max_tokens": 10, "reasoning_effort": None}
    extra = {"continue_final_message": True, "echo": True, "return_token_ids": True}
    answer = client.chat.completions.create(**request, extra_body=extra)
    assert (answer.choices[0].message.content or "").startswith("Once upon a time")
    prompt = answer.prompt_token_ids  # type: ignore[attr-defined]
    assert answer.usage
    assert len(prompt) == answer.usage.prompt_tokens


def test_a_message_is_not_gone_on_with_inside_a_call(
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


def test_functions_in_the_older_form(client: openai.OpenAI, common: dict[str, Any]) -> None:
    request = {**common, "messages": USER, "reasoning_effort": "none"}
    answer = client.chat.completions.create(
        **request,
        functions=[tools.WEATHER["function"]],
        function_call={"name": "get_weather"},
    )
    message = answer.choices[0].message
    assert message.function_call is not None
    answers.check(
        answers.Answer(calls=[(message.function_call.name, message.function_call.arguments)]),
        [tools.WEATHER],
    )


@pytest.mark.parametrize("mark", ["call_begin", "reasoning_end", "failure"])
def test_marks_are_no_stop_tokens(
    client: openai.OpenAI, backend: Any, plain: dict[str, Any], mark: str
) -> None:
    token = backend.get("/info").json()["marks"][mark]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**plain, extra_body={"stop_token_ids": [token]})
    assert refused.value.param == "stop_token_ids"
