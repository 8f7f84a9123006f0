"""Compaction in a request: when it is done, and the items that it leaves in `input`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolgate_core.context_edits import Compaction
from toolgate_core.errors import InvalidRequest
from toolgate_core.text_size import BYTES_PER_TOKEN, text_bytes

from ...chat.compaction.compacted import Compacted, opened
from ...request_fields import Fields
from ...sealing import OwnerSeal
from ..shared.collection_types import Object
from ..shared.history import History
from ..shared.value_types import Choice, Integer

TRIGGER = "compaction_trigger"
PARAMETER = "context_management"
THRESHOLD = "compact_threshold"
ENTRY = Object({"type": Choice(("compaction",)), THRESHOLD: Integer(1000)}, required=("type",))
DEFAULT_THRESHOLD = 200_000
"""If an entry has none. A prompt that leaves no room for the response is compacted anyway."""
KEPT_ROLES = ("user", "developer", "system")
"""Roles whose messages clients keep, and `/responses/compact` returns."""


def read_compaction(values: Mapping[str, Any], items: Sequence[object]) -> Compaction | None:
    """Return the compaction that a request asks for. `items`: its own ones. Raise InvalidRequest
    and UnsupportedParameter."""
    entries = [
        ENTRY.parse(entry, f"{PARAMETER}[{at}]")
        for at, entry in enumerate(values.get(PARAMETER, ()))
    ]
    for at, item in enumerate(items[:-1]):
        if is_trigger(item):
            path = f"input[{at}]"
            raise InvalidRequest(
                f"{path!r}: an item of the type {TRIGGER!r} must be the last one of `input`.",
                param=path,
            )
    if items and is_trigger(items[-1]):
        return Compaction(pauses=True, keeps_users=True)
    if not entries:
        return None
    return Compaction(min(entry.get(THRESHOLD, DEFAULT_THRESHOLD) for entry in entries))


def is_trigger(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == TRIGGER


def open_item(fields: Fields, seal: OwnerSeal | None, history: History) -> Compacted | None:
    """Return what an item of the type `compaction` has; None if it is left out, because it was
    changed, or sealed for another key or service."""
    made = opened(fields.text("encrypted_content"), seal)
    if made is None:
        history.note("left_out", fields.place)
    return made


def retained(items: Sequence[Any], context: int) -> list[Any]:
    """Return those items of a compacted conversation that stay beside its summary: the latest
    messages of users and developers, in a quarter of the context. `context`: in tokens, of which
    the items have as many as estimated."""
    left = context // 4 * BYTES_PER_TOKEN
    kept: list[Any] = []
    for item in reversed([item for item in items if _is_kept(item)]):
        left -= text_bytes(item)
        if left < 0:
            break
        kept.append(item)
    return kept[::-1]


def _is_kept(item: object) -> bool:
    if isinstance(item, str):
        return True
    return (
        isinstance(item, dict)
        and item.get("type") in (None, "message")
        and item.get("role") in KEPT_ROLES
    )
