"""Parameters of the chat template: its arguments, and how the prompt ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from .collection_types import Array, JsonObject
from .parameter import Parameter
from .value_types import Choice, Flag, Integer

RESERVED_TEMPLATE_KWARGS = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "messages",
        "tokenize",
        "tools",
    }
)

TEMPLATE: tuple[Parameter, ...] = (
    Parameter(
        "chat_template_kwargs",
        JsonObject(),
        origin="vLLM",
        note="Arguments of the chat template. Those that the gateway sets are rejected.",
    ),
    Parameter(
        "documents",
        Array("documents"),
        origin="vLLM",
        note="Documents for the chat template.",
    ),
    Parameter(
        "add_generation_prompt",
        Flag(),
        origin="vLLM",
        note="false: the prompt does not open an assistant turn.",
    ),
    Parameter(
        "continue_final_message",
        Flag(),
        origin="vLLM",
        note="Continue the last message. `add_generation_prompt` is then false.",
    ),
    Parameter(
        "add_special_tokens",
        Flag(),
        origin="vLLM",
        tokenizing="add_special_tokens",
        note="Let the tokenizer add its own special tokens. Templates usually write them.",
    ),
    Parameter(
        "truncate_prompt_tokens",
        Integer(-1),
        origin="vLLM",
        tokenizing="truncate_prompt_tokens",
        note="Keep this many tokens of the prompt. -1 keeps as many as the context allows.",
    ),
    Parameter(
        "truncation_side",
        Choice(("left", "right")),
        origin="vLLM",
        tokenizing="truncation_side",
        note='"left" removes the first tokens of the prompt, "right" the last ones.',
    ),
)


def template_kwargs(values: Mapping[str, Any], mode: wire.ReasoningMode) -> dict[str, Any] | None:
    """The arguments of the chat template besides messages and tools."""
    given = values.get("chat_template_kwargs", {})
    for name in RESERVED_TEMPLATE_KWARGS.intersection(given):
        path = f"chat_template_kwargs.{name}"
        raise UnsupportedParameter(
            f"{path!r} is set by the gateway and can't be set by a request. Remove it.", param=path
        )
    kwargs = {name: value for name, value in given.items() if name != "enable_thinking"}
    if (effort := values.get("reasoning_effort")) is not None:
        kwargs.setdefault("reasoning_effort", effort)
    if mode != "default":
        kwargs["enable_thinking"] = mode == "on"
    if (documents := values.get("documents")) is not None:
        kwargs.setdefault("documents", documents)
    return kwargs | _prompt_end(values) or None


def _prompt_end(values: Mapping[str, Any]) -> dict[str, Any]:
    """vLLM requires `add_generation_prompt: false` beside `continue_final_message`. Here it may be
    left out."""
    generation = values.get("add_generation_prompt")
    if values.get("continue_final_message"):
        if generation:
            raise InvalidRequest(
                "'continue_final_message' and 'add_generation_prompt' can't both be true. Remove "
                "'add_generation_prompt'.",
                param="continue_final_message",
            )
        return {"continue_final_message": True, "add_generation_prompt": False}
    return {} if generation is None else {"add_generation_prompt": generation}
