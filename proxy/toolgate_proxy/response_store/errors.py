"""What keeps a response from being stored or read."""

from __future__ import annotations

from typing import Literal

NotStored = Literal["unavailable", "too_large", "exists", "disabled"]
"""Why a response is not stored: Redis does not respond or refuses the write; it exceeds
8 MB (`RESPONSE_MAX_BYTES`) or the quota alone; there is a response with the ID that the client set;
TOOLGATE_RESPONSES_QUOTA is 0."""


class EventsTooLarge(Exception):
    """The events of a response in flight were too large to keep."""


class StoreUnavailable(Exception):
    """Redis does not respond, or refuses the command."""
