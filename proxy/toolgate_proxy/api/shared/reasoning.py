"""Reasoning parameters: whether the model reasons, and for how many tokens at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core import wire

from ...request_fields import Fields
from .collection_types import Object
from .parameter import Parameter
from .value_types import Choice, Flag, Integer

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
        note='"none" turns reasoning off. The other values turn it on and set its budget.',
    ),
    Parameter(
        "reasoning_budget",
        Integer(-1),
        origin="Toolgate",
        note="Maximum number of reasoning tokens. 0 ends the reasoning at once, -1 sets no limit.",
    ),
    Parameter(
        "thinking_token_budget",
        Integer(-1),
        origin="vLLM",
        note="Same as `reasoning_budget`.",
    ),
    Parameter(
        "enable_thinking",
        Flag(),
        origin="Toolgate",
        note="Same as `chat_template_kwargs.enable_thinking`.",
    ),
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
        origin="LiteLLM",
        note="Anthropic's form of `enable_thinking` and `reasoning_budget`.",
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
