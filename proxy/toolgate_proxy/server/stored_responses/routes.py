"""Which routes of the Responses API our models have beside `POST /v1/responses`.

Those for responses of other providers' models stay LiteLLM's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from toolgate_core.errors import RouteClosed

from ...litellm_host.deployments.router import are_all_ours

PATHS = re.compile(
    r"(?:(?:/openai)?/v1)?/(?:responses/(?P<id>[^/]+)(?P<rest>/.*)?|conversations(?:/.*)?)",
    re.DOTALL,
)
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


def operation_of(method: str, found: re.Match[str]) -> Operation | RouteClosed | None:
    """Return the operation, or the error for one that our models do not have. Return None for other
    providers' responses. `found`: the match of PATHS."""
    wanted = found["id"]
    if not are_all_ours() and (wanted is None or OWN_ID.fullmatch(wanted) is None):
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
