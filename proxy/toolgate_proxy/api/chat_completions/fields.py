"""Fields that occur in chunks and in whole responses."""

from __future__ import annotations

from typing import Any

from toolgate_core.deltas import Finish

from ...chat.response import ChatResponse, TokenCounts


def finish_reason(finish: Finish, *, legacy: bool) -> str:
    return "function_call" if legacy and finish.reason == "tool_calls" else finish.reason


def finish_fields(finish: Finish) -> dict[str, Any]:
    """Fields beyond OpenAI's `finish_reason` that report why a choice ended."""
    fields: dict[str, Any] = {}
    if finish.stop_reason is not None:
        fields["stop_reason"] = finish.stop_reason  # vLLM's field
    if finish.call is not None:
        fields["toolgate"] = {"last_call": finish.call}
    return fields


def prompt_fields(response: ChatResponse) -> dict[str, Any]:
    """vLLM's fields about the prompt, if the request enabled them."""
    fields: dict[str, Any] = {}
    if response.prompt_token_ids is not None:
        fields["prompt_token_ids"] = list(response.prompt_token_ids)
    if response.prompt_text is not None:
        fields["prompt_text"] = response.prompt_text
    if response.prompt_logprobs is not None:
        fields["prompt_logprobs"] = [
            None if at is None else {str(token): each.model_dump() for token, each in at.items()}
            for at in response.prompt_logprobs
        ]
    return fields


def usage(counts: TokenCounts) -> dict[str, Any]:
    return {
        "prompt_tokens": counts.prompt,
        "completion_tokens": counts.completion,
        "total_tokens": counts.prompt + counts.completion,
        "prompt_tokens_details": {"cached_tokens": counts.cached},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
    }
