"""Parameters that OpenAI, vLLM or LiteLLM define and that have no effect here or are rejected."""

from __future__ import annotations

from .parameter import Parameter, default_only, ignored, rejected

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
