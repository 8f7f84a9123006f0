"""How an answer may reason, and what the chat template is told."""

from __future__ import annotations

from typing import Any

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ...request_fields import Fields
from .sampling import MOST

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
EFFORT_BUDGETS: dict[str, int | None] = {
    "none": None,
    "minimal": 512,
    "low": 2048,
    "medium": 8192,
    "high": None,
    "xhigh": None,
    "max": None,
}
"""Tokens of reasoning by effort, where the request sets no budget itself. Open models were trained
to reason without a budget: the higher efforts leave it to them."""


def reasoning_mode(fields: Fields) -> wire.ReasoningMode:
    """`enable_thinking` goes before `reasoning_effort`, as in vLLM, and that before `thinking`."""
    given = _template_fields(fields)
    thinking = given.flag("enable_thinking")
    if thinking is None:
        thinking = fields.flag("enable_thinking")
    if thinking is None and (effort := _effort(fields)) is not None:
        thinking = effort != "none"
    if thinking is None and (block := _thinking(fields)) is not None:
        thinking = block.values["type"] != "disabled"
    if thinking is None:
        return "default"
    return "on" if thinking else "off"


def reasoning_budget(fields: Fields) -> int | None:
    """The tokens after which reasoning is closed. 0 turns it off in effect."""
    for name in ("reasoning_budget", "thinking_token_budget"):
        budget = fields.integer(name, -1, MOST)
        if budget is not None:
            return budget if budget >= 0 else None
    block = _thinking(fields)
    if block is not None and (budget := block.integer("budget_tokens", 1, MOST)) is not None:
        return budget
    effort = _effort(fields)
    return None if effort is None else EFFORT_BUDGETS[effort]


def template_kwargs(fields: Fields) -> dict[str, Any] | None:
    """What the chat template is given beside messages and tools."""
    given = _template_fields(fields)
    for name in RESERVED_TEMPLATE_KWARGS.intersection(given.values):
        raise UnsupportedParameter(f"{given.path(name)!r} can't be set.", param=given.path(name))
    kwargs = {name: value for name, value in given.values.items() if name != "enable_thinking"}
    effort, mode = _effort(fields), reasoning_mode(fields)
    if effort is not None:
        kwargs.setdefault("reasoning_effort", effort)
    if mode != "default":
        kwargs["enable_thinking"] = mode == "on"
    documents = fields.items("documents")
    if documents is not None:
        kwargs.setdefault("documents", documents)
    return kwargs | _turns(fields) or None


def continues(fields: Fields) -> bool:
    """Whether the answer goes on with the last message."""
    return fields.flag("continue_final_message") or False


def _turns(fields: Fields) -> dict[str, Any]:
    """How the prompt ends. vLLM wants `add_generation_prompt` set to false beside
    `continue_final_message`; one that is left out counts as false here."""
    generation = fields.flag("add_generation_prompt")
    if continues(fields):
        if generation:
            raise InvalidRequest(
                "'continue_final_message' and 'add_generation_prompt' can't both be true.",
                param="continue_final_message",
            )
        return {"continue_final_message": True, "add_generation_prompt": False}
    return {} if generation is None else {"add_generation_prompt": generation}


def _template_fields(fields: Fields) -> Fields:
    return Fields(fields.mapping("chat_template_kwargs") or {}, "chat_template_kwargs")


def _effort(fields: Fields) -> str | None:
    effort = fields.text("reasoning_effort")
    if effort is not None and effort not in EFFORT_BUDGETS:
        raise fields.wrong("reasoning_effort", f"one of {', '.join(EFFORT_BUDGETS)}")
    return effort


def _thinking(fields: Fields) -> Fields | None:
    """Anthropic's block, as LiteLLM's bridge passes it on."""
    block = fields.mapping("thinking")
    if block is None:
        return None
    inner = Fields(block, "thinking")
    if block.get("type") not in ("enabled", "disabled", "adaptive"):
        raise inner.wrong("type", '"enabled" or "disabled"')
    return inner
