"""Cases of logprobs, token ids, streams, templates and metadata."""

import json
from typing import Any

from bench.surface.cases import (
    USER,
    Body,
    Case,
    Effect,
    different_prompt,
    equals,
    given,
    plain,
    rejected,
    shorter_prompt,
)
from bench.surface.probe import ChatResponse, Send

NEVER: Effect = lambda *_: False  # noqa: E731
"""The effect of parameters that a text model can't support. Accepting them is ignoring them."""
AUDIO_OUT = {"modalities": ["audio"], "audio": {"voice": "alloy", "format": "wav"}}
PARTIAL = [*USER, {"role": "assistant", "content": "Once upon"}]


def cases() -> list[Case]:
    return [*_logprobs(), *_streams(), *_turns(), *_prompts(), *_metadata(), *_unsupported()]


def _logprobs() -> list[Case]:
    base = plain(logprobs=True)
    as_ids = plain(logprobs=True, return_tokens_as_token_ids=True)
    chosen = plain(logprobs=True, logprob_token_ids=[300, 301])
    return [
        Case("logprobs", "true", base, lambda _, response: bool(response.choices[0].logprobs)),
        Case("logprobs", "bytes equal to the content", base, _logprobs_match),
        *rejected("logprobs", *given("logprobs", "yes")),
        Case("top_logprobs", "2", plain(logprobs=True, top_logprobs=2), _top_count(2)),
        Case("top_logprobs", "0", plain(logprobs=True, top_logprobs=0), _top_count(0)),
        *rejected(
            "top_logprobs",
            *given("top_logprobs", -2, 10**6, "x", base=base),
            ("without logprobs", plain(top_logprobs=2)),
        ),
        Case(
            "prompt_logprobs",
            "1",
            plain(prompt_logprobs=1),
            lambda _, response: bool(response.body.get("prompt_logprobs")),
            stream_values=(False,),
        ),
        Case("logprob_token_ids", "two tokens", chosen, _has_chosen),
        *rejected("logprob_token_ids", *given("logprob_token_ids", [10**9], ["x"], base=base)),
        Case(
            "return_tokens_as_token_ids",
            "true",
            as_ids,
            lambda _, response: response.choices[0].logprobs[0]["token"].startswith("token_id:"),
        ),
        Case(
            "return_token_ids",
            "true",
            plain(return_token_ids=True),
            lambda _, response: len(response.choices[0].token_ids) == response.completion > 0
            and len(response.body["prompt_token_ids"]) == response.prompt,
        ),
        *rejected("return_token_ids", *given("return_token_ids", "please")),
        Case(
            "return_prompt_text",
            "true",
            plain(return_prompt_text=True),
            lambda _, response: USER[0]["content"] in response.body.get("prompt_text", ""),
        ),
    ]


def _streams() -> list[Case]:
    streamed, whole = (True,), (False,)
    usage = {"include_usage": True}
    return [
        Case(
            "stream_options",
            "include_usage",
            plain(stream_options=usage),
            lambda _, response: response.usages == 1,
            stream_values=streamed,
        ),
        Case(
            "stream_options",
            "continuous_usage_stats",
            plain(stream_options={**usage, "continuous_usage_stats": True}),
            lambda _, response: response.usages > 3,
            stream_values=streamed,
        ),
        Case(
            "stream_options",
            "none",
            plain(stream_options=None),
            lambda _, response: response.usages == 0,
            stream_values=streamed,
        ),
        *[
            Case("stream_options", f"{value}", body, invalid=True, stream_values=whole)
            for value, body in given("stream_options", usage)
        ],
        *[
            Case("stream_options", f"{value}", body, invalid=True, stream_values=streamed)
            for value, body in given("stream_options", 3, {"include_usage": "maybe"})
        ],
        *[
            Case("stream", f"{value}", body, invalid=True, stream_values=whole)
            for value, body in given("stream", "maybe", 7)
        ],
    ]


def _turns() -> list[Case]:
    partial = plain(messages=PARTIAL)
    continued = {**partial, "continue_final_message": True, "add_generation_prompt": False}
    return [
        Case(
            "add_generation_prompt",
            "false",
            plain(add_generation_prompt=False),
            shorter_prompt(plain()),
        ),
        *rejected("add_generation_prompt", *given("add_generation_prompt", "maybe")),
        Case("continue_final_message", "true", continued, shorter_prompt(partial)),
        *rejected(
            "continue_final_message",
            ("with add_generation_prompt", {**continued, "add_generation_prompt": True}),
        ),
        Case(
            "echo",
            "true",
            {**continued, "echo": True},
            lambda _, response: response.text.startswith("Once upon"),
        ),
        *rejected("echo", *given("echo", 3)),
    ]


def _prompts() -> list[Case]:
    long = plain(messages=[{"role": "user", "content": "word " * 200}])
    shouted = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
    return [
        Case("documents", "one", plain(documents=[{"title": "a", "text": "b"}])),
        *rejected("documents", *given("documents", "x")),
        Case("cache_salt", "a string", plain(cache_salt="pepper"), equals(plain())),
        *rejected("cache_salt", *given("cache_salt", "", 3)),
        Case("priority", "0", plain(priority=0), equals(plain())),
        *rejected("priority", ("5, without a priority scheduler", plain(priority=5))),
        *rejected("priority", *given("priority", "high", 2**70)),
        Case(
            "truncate_prompt_tokens",
            "20",
            {**long, "truncate_prompt_tokens": 20},
            lambda _, response: response.prompt == 20,
        ),
        Case("add_special_tokens", "true", plain(add_special_tokens=True), equals(plain())),
        Case("chat_template", "another", plain(chat_template=shouted), different_prompt(plain())),
        Case("skip_special_tokens", "false", plain(skip_special_tokens=False, stop="zzzz"), None),
        Case(
            "spaces_between_special_tokens",
            "false",
            plain(spaces_between_special_tokens=False),
            equals(plain()),
        ),
        Case("mm_processor_kwargs", "{}", plain(mm_processor_kwargs={}), equals(plain())),
        Case("media_io_kwargs", "{}", plain(media_io_kwargs={}), equals(plain())),
    ]


def _metadata() -> list[Case]:
    same = equals(plain())
    named: list[tuple[str, Any]] = [
        ("user", "ann"),
        ("metadata", {"a": "b"}),
        ("store", False),
        ("service_tier", "auto"),
        ("safety_identifier", "x"),
        ("prompt_cache_key", "x"),
        ("session_id", "x"),
    ]
    return [
        *[Case(name, json.dumps(value), plain(**{name: value}), same) for name, value in named],
        Case(
            "x-request-id",
            "a header",
            plain(headers={"x-request-id": "abc-123"}),
            lambda _, response: "abc-123" in response.headers.get("x-request-id", ""),
        ),
        Case(
            "request_id",
            "abc-123",
            plain(request_id="abc-123"),
            lambda _, response: "abc-123" in str(response.body.get("id")),
        ),
    ]


def _unsupported() -> list[Case]:
    """Parameters of OpenAI's own models or of vLLM clusters, and an unknown parameter."""
    return [
        Case("modalities", '["text"]', plain(modalities=["text"]), equals(plain())),
        Case("modalities", '["text", "audio"]', plain(**AUDIO_OUT), NEVER),
        Case("prediction", "content", plain(prediction={"type": "content", "content": "x"}), NEVER),
        Case("web_search_options", "{}", plain(web_search_options={}), NEVER),
        Case("verbosity", "low", plain(verbosity="low"), NEVER),
        Case(
            "kv_transfer_params", "{…}", plain(kv_transfer_params={"do_remote_decode": True}), NEVER
        ),
        Case("vllm_xargs", "{…}", plain(vllm_xargs={"a": 1}), NEVER),
        Case("temprature (misspelled)", "0", plain(temprature=0), invalid=True),
    ]


def _logprobs_match(_: Send, response: ChatResponse) -> bool:
    choice = response.choices[0]
    spelled = b"".join(bytes(token["bytes"] or ()) for token in choice.logprobs)
    content = choice.content.rstrip("�")
    return bool(content) and spelled.decode(errors="replace").rstrip("�") == content


def _top_count(count: int) -> Effect:
    def effect(_: Send, response: ChatResponse) -> bool:
        logprobs = response.choices[0].logprobs
        return bool(logprobs) and all(len(token["top_logprobs"]) == count for token in logprobs)

    return effect


def _has_chosen(_: Send, response: ChatResponse) -> bool:
    logprobs = response.choices[0].logprobs
    return bool(logprobs) and all(len(token["top_logprobs"]) >= 2 for token in logprobs)


__all__ = ["Body", "cases"]
