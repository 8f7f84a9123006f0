"""Stores a response at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....response_store.record import EventLog, StoredResponse
from ...surface import Client
from .history import as_items
from .item_ids import with_ids


async def store(
    body: dict[str, Any], repeated: Mapping[str, Any], client: Client, log: EventLog | None
) -> dict[str, Any]:
    """The response object to send: `body`, or if it can't be stored, with `store: false` and the
    reason in `toolgate.not_stored`. `repeated`: fields of the request. `log`: of a stream."""
    if not body["store"] or client.responses is None or client.seal is None:
        return body
    response = StoredResponse(
        body["id"],
        body,
        with_ids(as_items(repeated["input"]), body["id"]),
        body["previous_response_id"],
        body["created_at"],
    )
    reason = await client.responses.put(client.seal.owner, response, log)
    if reason is None:
        return body
    added = {**body.get("toolgate", {}), "not_stored": reason}
    return {**body, "store": False, "toolgate": added}
