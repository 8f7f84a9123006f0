"""Which routes of the Responses API our models have beside `POST /v1/responses`.

Those for responses of other providers' models stay LiteLLM's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import orjson
from starlette.types import Receive, Scope, Send

from toolgate_core.errors import RouteClosed, UnsupportedParameter

from ...litellm_host.deployments.router import placement_of, rows_of

PATH = re.compile(
    r"(?:(?:/openai)?/v1)?/(?:responses/(?P<id>[^/]+)(?P<rest>/.*)?|conversations(?:/.*)?)",
    re.DOTALL,
)
SOCKET = re.compile(r"(?:/v1)?/responses")
OWN_ID = re.compile(r"resp_[0-9a-f]{32}")
OPERATIONS = ("compact", "input_tokens")
"""Names that stand where other paths have an id."""

Name = Literal["retrieve", "delete", "input_items", "cancel"]
NAMES: dict[tuple[str, str], Name] = {
    ("GET", ""): "retrieve",
    ("DELETE", ""): "delete",
    ("GET", "/input_items"): "input_items",
    ("POST", "/cancel"): "cancel",
}


@dataclass(frozen=True)
class Operation:
    """An operation on a stored response."""

    name: Name
    response_id: str


def operation_of(method: str, path: str) -> Operation | RouteClosed | None:
    """The operation, or the error for one that our models do not have. None for any other path, and
    for other providers' responses."""
    found = PATH.fullmatch(path)
    if found is None:
        return None
    wanted = found["id"]
    if not _only_ours() and (wanted is None or OWN_ID.fullmatch(wanted) is None):
        return None
    if wanted is None:
        return RouteClosed(
            "Conversations are not supported. Continue a response by `previous_response_id`."
        )
    name = NAMES.get((method, found["rest"] or ""))
    if wanted in OPERATIONS or name is None:
        return RouteClosed(
            "This operation of the Responses API is not supported. A response can be retrieved, "
            "deleted, and continued by `previous_response_id`."
        )
    return Operation(name, wanted)


def refuses_socket(scope: Scope) -> bool:
    """Whether a connection is a WebSocket of the Responses API, which our models do not have."""
    is_socket = scope["type"] == "websocket"
    return is_socket and SOCKET.fullmatch(scope["path"]) is not None and _only_ours()


async def refuse_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Ends the handshake with a 400, or with a 403 where the server supports only that."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    error = UnsupportedParameter(
        "The WebSocket mode of the Responses API is not supported. Use POST /v1/responses."
    )
    headers = [(b"content-type", b"application/json")]
    start = "websocket.http.response.start"
    await send({"type": start, "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": orjson.dumps(error.body())})


def _only_ours() -> bool:
    """Whether all deployments of the gateway are Toolgate's."""
    rows = rows_of(None)
    return bool(rows) and all(placement_of(row) is not None for row in rows)
