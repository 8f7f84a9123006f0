"""Cases of what stands around an answer: logprobs, ids, streams, templates, records."""

import json
from typing import Any

from bench.surface.cases import (
    USER,
    Body,
    Case,
    Effect,
    equals,
    given,
    less_prompt,
    other_prompt,
    plain,
    refused,
)
from bench.surface.probe import AdmissionRequest, Seen

NEVER: Effect = lambda *_: False  # noqa: E731
"""What can't be had of a text model on one machine: to pass it over is to ignore it."""
IMAGE_OUT = {"modalities": ["audio"], "audio": {"voice": "alloy", "format": "wav"}}
BEGUN = [*USER, {"role": "assistant", "content": "Once upon"}]


def cases() -> list[Case]:
    return [*_logprobs(), *_streams(), *_turns(), *_prompts(), *_records(), *_elsewhere()]


def _logprobs() -> list[Case]:
    asked = plain(logprobs=True)
    as_ids = plain(logprobs=True, return_tokens_as_token_ids=True)
    chosen = plain(logprobs=True, logprob_token_ids=[300, 301])
    return [
        Case("logprobs", "true", asked, lambda _, s: bool(s.choices[0].logprobs)),
        Case("logprobs", "their bytes spell the content", asked, _lined_up),
        *refused("logprobs", *given("logprobs", "yes")),
        Case("top_logprobs", "2", plain(logprobs=True, top_logprobs=2), _tops(2)),
        Case("top_logprobs", "0", plain(logprobs=True, top_logprobs=0), _tops(0)),
        *refused(
            "top_logprobs",
            *given("top_logprobs", -2, 10**6, "x", base=asked),
            ("without logprobs", plain(top_logprobs=2)),
        ),
        Case(
            "prompt_logprobs",
            "1",
            plain(prompt_logprobs=1),
            lambda _, s: bool(s.body.get("prompt_logprobs")),
            forms=(False,),
        ),
        Case("logprob_token_ids", "two tokens", chosen, _of_chosen),
        *refused("logprob_token_ids", *given("logprob_token_ids", [10**9], ["x"], base=asked)),
        Case(
            "return_tokens_as_token_ids",
            "true",
            as_ids,
            lambda _, s: s.choices[0].logprobs[0]["token"].startswith("token_id:"),
        ),
        Case(
            "return_token_ids",
            "true",
            plain(return_token_ids=True),
            lambda _, s: len(s.choices[0].token_ids) == s.completion > 0
            and len(s.body["prompt_token_ids"]) == s.prompt,
        ),
        *refused("return_token_ids", *given("return_token_ids", "please")),
        Case(
            "return_prompt_text",
            "true",
            plain(return_prompt_text=True),
            lambda _, s: USER[0]["content"] in s.body.get("prompt_text", ""),
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
            lambda _, s: s.usages == 1,
            forms=streamed,
        ),
        Case(
            "stream_options",
            "continuous_usage_stats",
            plain(stream_options={**usage, "continuous_usage_stats": True}),
            lambda _, s: s.usages > 3,
            forms=streamed,
        ),
        Case(
            "stream_options",
            "none",
            plain(stream_options=None),
            lambda _, s: s.usages == 0,
            forms=streamed,
        ),
        *[
            Case("stream_options", f"{value}", body, wrong=True, forms=whole)
            for value, body in given("stream_options", usage)
        ],
        *[
            Case("stream_options", f"{value}", body, wrong=True, forms=streamed)
            for value, body in given("stream_options", 3, {"include_usage": "maybe"})
        ],
        *[
            Case("stream", f"{value}", body, wrong=True, forms=whole)
            for value, body in given("stream", "maybe", 7)
        ],
    ]


def _turns() -> list[Case]:
    begun = plain(messages=BEGUN)
    goes_on = {**begun, "continue_final_message": True, "add_generation_prompt": False}
    return [
        Case(
            "add_generation_prompt",
            "false",
            plain(add_generation_prompt=False),
            less_prompt(plain()),
        ),
        *refused("add_generation_prompt", *given("add_generation_prompt", "maybe")),
        Case("continue_final_message", "true", goes_on, less_prompt(begun)),
        *refused(
            "continue_final_message",
            ("beside add_generation_prompt", {**goes_on, "add_generation_prompt": True}),
        ),
        Case(
            "echo", "true", {**goes_on, "echo": True}, lambda _, s: s.text.startswith("Once upon")
        ),
        *refused("echo", *given("echo", 3)),
    ]


def _prompts() -> list[Case]:
    long = plain(messages=[{"role": "user", "content": "word " * 200}])
    shouted = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
    return [
        Case("documents", "one", plain(documents=[{"title": "a", "text": "b"}])),
        *refused("documents", *given("documents", "x")),
        Case("cache_salt", "a string", plain(cache_salt="pepper"), equals(plain())),
        *refused("cache_salt", *given("cache_salt", "", 3)),
        Case("priority", "0", plain(priority=0), equals(plain())),
        *refused("priority", ("5, to a scheduler without priorities", plain(priority=5))),
        *refused("priority", *given("priority", "high", 2**70)),
        Case(
            "truncate_prompt_tokens",
            "20",
            {**long, "truncate_prompt_tokens": 20},
            lambda _, s: s.prompt == 20,
        ),
        Case("add_special_tokens", "true", plain(add_special_tokens=True), equals(plain())),
        Case("chat_template", "another", plain(chat_template=shouted), other_prompt(plain())),
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


def _records() -> list[Case]:
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
            lambda _, s: "abc-123" in s.headers.get("x-request-id", ""),
        ),
        Case(
            "request_id",
            "abc-123",
            plain(request_id="abc-123"),
            lambda _, s: "abc-123" in str(s.body.get("id")),
        ),
    ]


def _elsewhere() -> list[Case]:
    """What OpenAI or a fleet has, and values that no one can know."""
    return [
        Case("modalities", '["text"]', plain(modalities=["text"]), equals(plain())),
        Case("modalities", '["text", "audio"]', plain(**IMAGE_OUT), NEVER),
        Case("prediction", "content", plain(prediction={"type": "content", "content": "x"}), NEVER),
        Case("web_search_options", "{}", plain(web_search_options={}), NEVER),
        Case("verbosity", "low", plain(verbosity="low"), NEVER),
        Case(
            "kv_transfer_params", "{…}", plain(kv_transfer_params={"do_remote_decode": True}), NEVER
        ),
        Case("vllm_xargs", "{…}", plain(vllm_xargs={"a": 1}), NEVER),
        Case("temprature (a slip)", "0", plain(temprature=0), wrong=True),
    ]


def _lined_up(_: AdmissionRequest, seen: Seen) -> bool:
    choice = seen.choices[0]
    spelled = b"".join(bytes(token["bytes"] or ()) for token in choice.logprobs)
    said = choice.content.rstrip("�")
    return bool(said) and spelled.decode(errors="replace").rstrip("�") == said


def _tops(count: int) -> Effect:
    def effect(_: AdmissionRequest, seen: Seen) -> bool:
        told = seen.choices[0].logprobs
        return bool(told) and all(len(token["top_logprobs"]) == count for token in told)

    return effect


def _of_chosen(_: AdmissionRequest, seen: Seen) -> bool:
    told = seen.choices[0].logprobs
    return bool(told) and all(len(token["top_logprobs"]) >= 2 for token in told)


__all__ = ["Body", "cases"]
