"""The statuses of responses that are generated in the background."""

from __future__ import annotations

from collections.abc import Mapping

from toolgate_core.errors import GatewayStopped

from .record import Json, StoredResponse

ACTIVE = ("queued", "in_progress")
"""The statuses of a response that has not ended."""
UNFINISHED = (*ACTIVE, "failed", "cancelled")
"""The statuses of a response that can't be continued."""
STOPPED = GatewayStopped(
    "The gateway process that generated this response stopped before its end, or could not reach "
    "Redis. Create it again."
).body()["error"]


def is_active(response: StoredResponse) -> bool:
    return response.body.get("status") in ACTIVE


def failed(body: Json, error: Mapping[str, object]) -> Json:
    """Return the object of a response that failed before it had output."""
    shown = {"code": error["code"], "message": error["message"]}
    return {**body, "status": "failed", "error": shown}


def gateway_stopped(body: Json) -> Json:
    return failed(body, STOPPED)


def cancelled(body: Json) -> Json:
    return {**body, "status": "cancelled"}
