"""Parameters of the chat template: whether the model reasons and for how many tokens at most,
further arguments, and how the prompt ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ...request_fields import Fields
from .parameter import Parameter, rows
from .value_types import Array, Choice, Flag, Integer, JsonObject, Object

EFFORT_BUDGETS: dict[str, int | None] = {
    "none": None,
    "minimal": 512,
    "low": 2048,
    "medium": 8192,
    "high": None,
    "xhigh": None,
    "max": None,
    "ultra": None,
}
"""Budget of reasoning tokens by effort, unless the request sets a budget. Open models were trained
to reason without a budget, so the higher efforts have none."""

REASONING: tuple[Parameter, ...] = (
    Parameter(
        "reasoning_effort",
        Choice(tuple(EFFORT_BUDGETS)),
        '"none" turns reasoning off. Others turn it on and set its '
        "[budget](chat.md#token-budgets).",
    ),
    *rows(
        "Toolgate",
        reasoning_budget=(
            Integer(-1),
            "Maximum number of reasoning tokens; -1: no limit.",
        ),
        enable_thinking=(Flag(), "Same as `chat_template_kwargs.enable_thinking`."),
    ),
    Parameter("thinking_token_budget", Integer(-1), "Same as `reasoning_budget`.", origin="vLLM"),
    Parameter(
        "thinking",
        Object(
            {
                "type": Choice(("enabled", "disabled", "adaptive")),
                "budget_tokens": Integer(1),
            },
            required=("type",),
            extensible=True,
        ),
        "Anthropic's form of `enable_thinking` and `reasoning_budget`.",
        origin="LiteLLM",
    ),
)


def reasoning_mode(values: Mapping[str, Any]) -> wire.ReasoningMode:
    """The first of these decides: `enable_thinking` in `chat_template_kwargs`, `enable_thinking`,
    `reasoning_effort` (this order is vLLM's), `thinking`."""
    enabled = None
    if kwargs := values.get("chat_template_kwargs"):
        enabled = Fields(kwargs, "chat_template_kwargs").flag("enable_thinking")
    if enabled is None:
        enabled = values.get("enable_thinking")
    if enabled is None and (effort := values.get("reasoning_effort")) is not None:
        enabled = effort != "none"
    if enabled is None and (thinking := values.get("thinking")) is not None:
        enabled = thinking["type"] != "disabled"
    if enabled is None:
        return "default"
    return "on" if enabled else "off"


def reasoning_budget(values: Mapping[str, Any]) -> int | None:
    """The maximum number of reasoning tokens."""
    budget: int | None = values.get("reasoning_budget", values.get("thinking_token_budget"))
    if budget is not None:
        return budget if budget >= 0 else None
    budget = values.get("thinking", {}).get("budget_tokens")
    if budget is not None:
        return budget
    return EFFORT_BUDGETS[values.get("reasoning_effort", "none")]


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
    *rows(
        "vLLM",
        chat_template_kwargs=(
            JsonObject(),
            "Those that the gateway sets are rejected.",
        ),
        documents=(Array("documents"), "For the chat template."),
        add_generation_prompt=(Flag(), "false: the prompt does not open an assistant turn."),
        continue_final_message=(
            Flag(),
            "`add_generation_prompt` is then false.",
        ),
    ),
    *rows(
        "vLLM",
        "tokenizing",
        add_special_tokens=(
            Flag(),
            "Templates usually write them.",
        ),
        truncate_prompt_tokens=(
            Integer(-1),
            "-1 keeps as many as the context allows.",
        ),
        truncation_side=(
            Choice(("left", "right")),
            '"left" removes the first tokens, "right" the last ones.',
        ),
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
