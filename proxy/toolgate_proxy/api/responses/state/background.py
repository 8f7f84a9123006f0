"""What is stored of a response that is generated in the background."""

from __future__ import annotations

from typing import Any, NoReturn

from toolgate_core.errors import (
    GatewayStopped,
    InvalidRequest,
    RequestTooLarge,
    ResponsesUnavailable,
    UnsupportedParameter,
)

from ....response_store.background import BackgroundResponse, Replaced
from ....response_store.record import EventLog, StoredResponse
from ....response_store.sealed_store import StoreUnavailable

BACKGROUND = "background"


async def queue(background: BackgroundResponse, owner: str, turn: StoredResponse) -> None:
    """Store a response before it is generated. Raise ToolgateError."""
    try:
        reason = await background.queue(owner, turn)
    except StoreUnavailable as error:
        raise _unavailable() from error
    if reason is not None:
        _raise(reason)


async def finish(
    background: BackgroundResponse, turn: StoredResponse, log: EventLog | None
) -> dict[str, Any]:
    """Store a response at its end. Return the response object as it is stored, which was cancelled
    elsewhere perhaps. Raise ToolgateError."""
    reason = await background.finish(turn, log)
    if reason is None:
        return turn.body
    if reason != "changed":
        _raise(reason)
    try:
        stored = await background.stored_body()
    except StoreUnavailable as error:
        raise _unavailable() from error
    if stored is None:
        raise GatewayStopped("The response was deleted, or lost by Redis, before its end.")
    return stored


def _raise(reason: Replaced) -> NoReturn:
    match reason:
        case "exists":
            raise InvalidRequest(
                "There is a response with this ID. Send another `request_id`.", param="request_id"
            )
        case "too_large":
            raise RequestTooLarge(
                "The response is too large to be stored (8 MB, compressed), so it can't be "
                "generated in the background. Shorten `input`."
            )
        case "disabled":
            raise UnsupportedParameter(
                "'background' needs stored responses, which this gateway does not have "
                "(TOOLGATE_RESPONSES_QUOTA is 0). Remove it.",
                param=BACKGROUND,
            )
    raise _unavailable()


def _unavailable() -> ResponsesUnavailable:
    return ResponsesUnavailable(
        "The response can't be stored, because Redis does not respond or refuses the write. Try "
        "again shortly, or without `background`.",
        retry_after=1,
    )
