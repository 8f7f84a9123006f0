"""The requests in flight at deployments, as far as `max_parallel_requests` limits them.

As in LiteLLM, each process counts on its own, and a request that finds no slot is refused at once.
LiteLLM's own counters belong to its handler and are not public.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import litellm

from .router import Row, router

NAME = "max_parallel_requests"
RETRY_AFTER = "1"


class Slots:
    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        """By id of the deployment."""

    def has_free(self, row: Row) -> bool:
        """Return whether a deployment may have another request."""
        limit = limit_of(row)
        return limit is None or self._taken[row["model_info"]["id"]] < limit

    @contextmanager
    def taken(self, row: Row) -> Iterator[None]:
        """Hold a slot of a deployment. Raise RateLimitError if none is free."""
        if limit_of(row) is None:
            yield
            return
        if not self.has_free(row):
            raise _full(row["model_name"])
        deployment = row["model_info"]["id"]
        self._taken[deployment] += 1
        try:
            yield
        finally:
            self._taken[deployment] -= 1
            if not self._taken[deployment]:
                del self._taken[deployment]


def limit_of(row: Row) -> int | None:
    """Return the maximum number of requests in flight of a deployment."""
    given = row["litellm_params"].get(NAME)
    if given is None:
        given = getattr(router(), f"default_{NAME}", None)
    return int(given) or None if given is not None else None


def _full(model: str) -> litellm.RateLimitError:
    error = litellm.RateLimitError(
        f"The model {model!r} has as many requests as its `{NAME}` allows. Repeat the request "
        "later.",
        llm_provider="",
        model=model,
    )
    error.headers = {"retry-after": RETRY_AFTER}
    return error
