"""`thinking` and `output_config.effort`: whether the model reasons, for how long, and what of it
the client sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core import wire

from ...request_fields import invalid_value


def check_thinking(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest if thinking is enabled without a budget."""
    thinking = values.get("thinking", {})
    if thinking.get("type") == "enabled" and "budget_tokens" not in thinking:
        raise invalid_value("thinking.budget_tokens", "an integer from 1", None)


def with_effort(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values with the shared parameter that has the effort. The effort alone does not
    turn reasoning on. It sets the budget of thinking that is on and has none of its own."""
    effort = values.get("output_config", {}).get("effort")
    return values if effort is None else {**values, "reasoning_effort": effort}


def is_shown(values: Mapping[str, Any], mode: wire.ReasoningMode) -> bool:
    """Return whether the response has thinking blocks: if the request asks for thinking."""
    return bool(values.get("include_reasoning", mode == "on"))


def is_omitted(values: Mapping[str, Any]) -> bool:
    """Return whether thinking blocks have a signature only."""
    return bool(values.get("thinking", {}).get("display") == "omitted")
