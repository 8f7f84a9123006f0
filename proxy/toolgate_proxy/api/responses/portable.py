"""A request as other gateways and providers can read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core.errors import UnsupportedParameter

from .state.conversation import CONVERSATION
from .state.history import PREVIOUS

REASONING = "reasoning"


def portable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recalled body without what only this gateway knows: the ids of stored responses and
    items, and reasoning that is encrypted for it. Raise UnsupportedParameter for a turn of a stored
    conversation, to which the response of another provider could not be added."""
    if body.get(CONVERSATION) is not None:
        raise UnsupportedParameter(
            "Another provider's model can't continue a stored conversation.", param=CONVERSATION
        )
    kept = {name: value for name, value in body.items() if name != PREVIOUS}
    items = body.get("input")
    if isinstance(items, list):
        kept["input"] = [_without_id(item) for item in items if not _is_reasoning(item)]
    return kept


def _is_reasoning(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == REASONING


def _without_id(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: value for name, value in item.items() if name != "id"}
