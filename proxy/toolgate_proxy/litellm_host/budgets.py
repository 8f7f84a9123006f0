"""The cost of a request that LiteLLM's authentication reserves in the budgets of its database.

The success event of the request settles the reservation. It is released before a failure event,
whose hooks find it released: two releases at the same time would both lower LiteLLM's counters. If
there is neither event, LiteLLM's middleware releases it when the request ends.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from litellm.litellm_core_utils.core_helpers import bind_budget_reservation_to_callbacks
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.spend_tracking.budget_reservation import release_or_invalidate_budget_reservation


def leave_to_event(caller: UserAPIKeyAuth) -> None:
    """Leave the reservation to the success event, which is created after the request has ended."""
    bind_budget_reservation_to_callbacks({"metadata": {"user_api_key_auth": caller}})


async def release(caller: UserAPIKeyAuth) -> None:
    """Release the reservation of a request that has failed, or that LiteLLM's handler goes on with,
    which reserves again."""
    await release_or_invalidate_budget_reservation(caller.budget_reservation)


def released_before(
    event: Coroutine[Any, Any, None], caller: UserAPIKeyAuth | None
) -> Coroutine[Any, Any, None]:
    """Return a coroutine that releases the reservation and then creates a failure event, after the
    request has ended. LiteLLM's middleware does not release it any more."""
    if caller is None:
        return event
    leave_to_event(caller)
    return _released_before(event, caller)


async def _released_before(event: Coroutine[Any, Any, None], caller: UserAPIKeyAuth) -> None:
    await release(caller)
    await event
