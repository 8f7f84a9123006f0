"""A request as other gateways and providers can read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core.errors import UnsupportedParameter

from .state.background import BACKGROUND
from .state.conversation import CONVERSATION
from .state.history import PREVIOUS

SEALED = ("reasoning", "compaction")
"""Types of items that have encrypted content."""


def portable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recalled body without what only this gateway knows: the ids of stored responses and
    items, and reasoning and summaries that are encrypted for it. Raise UnsupportedParameter for a
    turn of a stored conversation, and for a response of the background: the response of another
    provider is not stored."""
    for name in (CONVERSATION, BACKGROUND):
        if body.get(name):
            raise UnsupportedParameter(
                f"The models of other providers do not support {name!r}.", param=name
            )
    kept = {name: value for name, value in body.items() if name != PREVIOUS}
    items = body.get("input")
    if isinstance(items, list):
        kept["input"] = [_without_id(item) for item in items if not _is_sealed(item)]
    return kept


def _is_sealed(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in SEALED


def _without_id(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: value for name, value in item.items() if name != "id"}
