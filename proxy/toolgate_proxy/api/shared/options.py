"""Parameters that all APIs treat alike: those of vLLM, LiteLLM and Toolgate for scheduling,
caching, fallbacks and extra output, and those that have no effect here or are rejected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolgate_core.errors import InvalidRequest

from .content_format import CONTENT_FORMAT
from .parameter import Parameter, default_only, ignored, rejected, rows
from .sampling import SAMPLING
from .template import REASONING, TEMPLATE
from .value_types import (
    INT64_MAX,
    INT64_MIN,
    Anything,
    Array,
    Flag,
    Integer,
    JsonObject,
    Object,
    Text,
    Texts,
)

PROMPT_CACHE_KEY = Parameter(
    "prompt_cache_key",
    Text(maximum=1024),
    note="For [prefix affinity](gateway.md#choosing-a-deployment) of an API key or team.",
)
"""Of OpenAI's APIs."""

LITELLM: tuple[Parameter, ...] = (
    *rows(
        "LiteLLM",
        fallbacks=(
            Anything("an array of models"),
            "[Fallbacks](gateway.md#fallbacks), instead of those that the operator has configured.",
        ),
        guardrails=(
            Array("guardrails", maximum=100),
            "Configured [guardrails](gateway.md#guardrails-and-hooks), besides those of every "
            "request. Unknown ones are ignored, as in LiteLLM.",
        ),
        tags=(
            Texts(100, length=256),
            "For tag routing, if configured, and callbacks.",
        ),
        cache=(
            JsonObject(),
            "`no-cache`, `no-store`, `use-cache`, `namespace`, `ttl` and `s-maxage` (seconds) "
            "for the [response cache](gateway.md#response-cache).",
        ),
    ),
    Parameter(
        "litellm_metadata", JsonObject(), "For callbacks.", origin="LiteLLM", support="ignored"
    ),
)
"""Parameters that LiteLLM's hooks, callbacks and router read. The response does not depend on the
others."""


def check_stream_options(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for options of a stream without a stream."""
    if "stream_options" in values and not values.get("stream"):
        raise InvalidRequest(
            "'stream_options' requires a stream. Set 'stream' to true.", param="stream_options"
        )


OPTIONS: tuple[Parameter, ...] = (
    *LITELLM,
    Parameter(
        "toolgate",
        Object(
            {
                "call_tokens": Integer(0, INT64_MAX),
                "fit_max_tokens": Flag(),
                "repetition_guard": Flag(),
            }
        ),
        "[`call_tokens`](chat.md#token-budgets): for a required call. "
        "[`fit_max_tokens`](messages.md#max_tokens) lowers `max_tokens` to what the context "
        "leaves; true in Messages. `repetition_guard` false lets [calls and formats repeat "
        "themselves](enforcement.md#repetition).",
        origin="Toolgate",
        members=dict.fromkeys(("call_tokens", "fit_max_tokens", "repetition_guard"), "options"),
    ),
    *rows(
        "vLLM",
        "request",
        priority=(
            Integer(INT64_MIN, INT64_MAX),
            "Priority for vLLM's scheduler, with `--scheduling-policy priority`.",
        ),
        cache_salt=(
            Text(minimum=1, maximum=1024),
            "Share [cached prefixes](security.md#prefix-cache) only with requests of the same "
            "owner that have the same salt.",
        ),
        include_reasoning=(Flag(), "false leaves it out of the response."),
    ),
    *rows(
        "vLLM",
        "extras",
        return_token_ids=(
            Flag(),
            "`token_ids` and `prompt_token_ids`, of each choice or in the last event.",
        ),
        return_prompt_text=(Flag(), "`prompt_text`, as the template rendered it."),
    ),
    Parameter(
        "return_tokens_as_token_ids",
        Flag(),
        "Write the tokens of logprobs as `token_id:<id>`.",
        origin="vLLM",
        to="extras.tokens_as_ids",
    ),
    *rows(
        "vLLM",
        request_id=(
            Text(minimum=1, maximum=128, in_path=True),
            "ID of the response, after the API's prefix. The header x-request-id is independent.",
        ),
        echo=(
            Flag(),
            "Start with the message that `continue_final_message` continues.",
        ),
    ),
)


UNSUPPORTED: tuple[Parameter, ...] = (
    *ignored(
        "OpenAI",
        metadata="Metadata is for the client's records.",
        prompt_cache_retention="vLLM manages the prefix cache.",
        safety_identifier="It identifies the end user.",
        service_tier="There are no service tiers.",
        store="Responses are not stored.",
        user="It identifies the end user.",
        verbosity="The templates of open models do not support it.",
    ),
    *ignored(
        "vLLM",
        skip_special_tokens="Content never contains special tokens.",
        spaces_between_special_tokens="Content never contains special tokens.",
    ),
    default_only("vLLM", "early_stopping", False, note="Beam search is not supported."),
    default_only("vLLM", "length_penalty", 1, note="Beam search is not supported."),
    default_only("vLLM", "media_io_kwargs", {}, note="The operator sets it at the backend."),
    default_only("vLLM", "mm_processor_kwargs", {}, note="The operator sets it at the backend."),
    default_only(
        "vLLM",
        "use_beam_search",
        False,
        note="vLLM does not run logits processors in a beam search.",
    ),
    *rejected(
        "vLLM",
        best_of="Use `n`.",
        chat_template="The operator sets it at the backend.",
        ec_transfer_params="The operator sets them at the backend.",
        guided_choice="Use `structured_outputs` with `choice`.",
        guided_grammar="Use `structured_outputs` with `regex`.",
        guided_json="Use `response_format`.",
        guided_regex="Use `structured_outputs` with `regex`.",
        kv_transfer_params="The operator sets them at the backend.",
        vllm_xargs="They could bypass the enforcement.",
        watermarking="Watermarks are not supported.",
    ),
    *ignored(
        "LiteLLM",
        extra_headers="They are for other providers.",
        max_retries="Retries are up to the client.",
        session_id="It is for the client's records.",
    ),
    *rejected(
        "LiteLLM", timeout="Set it in the client. A request ends when its client disconnects."
    ),
)
SHARED = (*SAMPLING, *REASONING, *TEMPLATE, *CONTENT_FORMAT, *OPTIONS, *UNSUPPORTED)
"""The rows of all APIs, and those of OpenAI's that are not about sampling."""


def shared_rows(others: Sequence[str]) -> Iterator[Parameter]:
    """Yield the rows for an API with other names than chat completions. `others`: those that it
    writes in another way, or for which it has no field."""
    for row in SHARED:
        if row.name not in others and not (row in UNSUPPORTED and row.origin == "OpenAI"):
            yield row
