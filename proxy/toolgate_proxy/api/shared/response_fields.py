"""Fields of responses that no API defines: vLLM's and Toolgate's. They are the same in all APIs."""

from __future__ import annotations

from typing import Any

from toolgate_core.deltas import Finish

from ...chat.response import ChatResponse


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


def with_receipt(fields: dict[str, Any], response: ChatResponse) -> dict[str, Any]:
    """The fields of a complete response, with its receipt in `toolgate`."""
    receipt = response.receipt()
    if receipt is None:
        return fields
    return {**fields, "toolgate": {**fields.get("toolgate", {}), "receipt": receipt}}
