"""Retries of a model by LiteLLM's retry policies. Without one, a request that failed at one backend
has moved to the others of its model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import litellm

from toolgate_core.errors import ToolgateError

from ..errors import host_error
from .fallbacks import is_of_the_model
from .key_settings import RETRY_POLICY
from .router import router

FIRST_DELAY, MAX_DELAY = 0.5, 8.0
"""Seconds before a retry at the only backend of a model. The delay doubles, as in LiteLLM."""


def retries_after(model: str, error: ToolgateError, of_key: Mapping[str, Any]) -> int:
    """Return how often a model may be tried again after an error. `of_key`: settings of the key."""
    held = router()
    by_model = of_key.get(RETRY_POLICY) or held.model_group_retry_policy
    if (held.retry_policy is None and not by_model) or not is_of_the_model(error):
        return 0
    allowed = litellm.get_num_retries_from_retry_policy(
        exception=host_error(error, model),
        model_group=model,
        model_group_retry_policy=by_model,
        retry_policy=held.retry_policy,
    )
    return allowed or 0


async def delay(retried: int, backends: int) -> None:
    """Wait before a retry. `retried`: the number of earlier ones."""
    if backends == 1:
        await asyncio.sleep(min(FIRST_DELAY * 2**retried, MAX_DELAY))
