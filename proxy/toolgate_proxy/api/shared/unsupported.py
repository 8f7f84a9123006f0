"""Parameters that OpenAI, vLLM or LiteLLM define and that have no effect here or are rejected."""

from __future__ import annotations

from .parameter import Parameter, default_only, ignored, rejected

UNSUPPORTED: tuple[Parameter, ...] = (
    *ignored(
        "OpenAI",
        metadata="metadata is for the client's records",
        prompt_cache_key="prefix caching works without a key",
        prompt_cache_retention="vLLM manages the prefix cache",
        safety_identifier="it identifies the end user",
        service_tier="there are no service tiers",
        store="responses are not stored",
        user="it identifies the end user",
    ),
    default_only(
        "OpenAI", "verbosity", "medium", note="the templates of open models do not support it"
    ),
    *ignored(
        "vLLM",
        skip_special_tokens="content never contains special tokens",
        spaces_between_special_tokens="content never contains special tokens",
    ),
    default_only("vLLM", "early_stopping", False, note="beam search is not supported"),
    default_only("vLLM", "length_penalty", 1, note="beam search is not supported"),
    default_only("vLLM", "media_io_kwargs", {}, note="the operator sets it at the backend"),
    default_only("vLLM", "mm_processor_kwargs", {}, note="the operator sets it at the backend"),
    default_only(
        "vLLM",
        "use_beam_search",
        False,
        note="vLLM does not run logits processors in a beam search",
    ),
    *rejected(
        "vLLM",
        best_of="use `n`",
        chat_template="the operator sets it at the backend",
        ec_transfer_params="the operator sets them at the backend",
        guided_choice="use `structured_outputs` with `choice`",
        guided_grammar="use `structured_outputs` with `regex`",
        guided_json="use `response_format`",
        guided_regex="use `structured_outputs` with `regex`",
        kv_transfer_params="the operator sets them at the backend",
        vllm_xargs="they could bypass the enforcement",
        watermarking="watermarks are not supported",
    ),
    *ignored(
        "LiteLLM",
        extra_headers="they are for other providers",
        max_retries="retries are up to the client",
        session_id="it is for the client's records",
    ),
    *rejected(
        "LiteLLM", timeout="set it in the client; a request ends when its client disconnects"
    ),
)
