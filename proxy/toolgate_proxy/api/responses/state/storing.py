"""Stores a response at its end, and keeps its events while it is streamed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ....response_store.live import LiveResponse
from ....response_store.record import EventLog, StoredResponse
from ...surface import Client
from .history import as_items
from .item_ids import with_ids


def begin(
    start: dict[str, Any], repeated: Mapping[str, Any], client: Client
) -> LiveResponse | None:
    """What keeps the events of a stream, if the response is to be stored. `start`: the response
    object of the first events. `repeated`: fields of the request."""
    if not start["store"] or client.responses is None or client.seal is None:
        return None
    turn = partial(_turn, start, repeated)
    return client.responses.live.begin(client.seal.owner, start, turn)


async def store(
    body: dict[str, Any], repeated: Mapping[str, Any], client: Client, log: EventLog | None
) -> dict[str, Any]:
    """The response object to send: `body`, or if it can't be stored, with `store: false` and the
    reason in `toolgate.not_stored`. `log`: of a stream."""
    if client.connection is not None:
        client.connection.keep(_turn(body, repeated))
    if not body["store"] or client.responses is None or client.seal is None:
        return body
    turn = _turn(body, repeated)
    reason = await client.responses.put(client.seal.owner, turn, log)
    if reason is None:
        return body
    added = {**body.get("toolgate", {}), "not_stored": reason}
    return {**body, "store": False, "toolgate": added}


def _turn(body: dict[str, Any], repeated: Mapping[str, Any]) -> StoredResponse:
    return StoredResponse(
        body["id"],
        body,
        with_ids(as_items(repeated["input"]), body["id"]),
        body["previous_response_id"],
        body["created_at"],
    )
