"""Start-up and shutdown of the gateway: health checks, keys and limits."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from toolgate_core import tracing
from toolgate_core.host_probe import return_freed

from ..features.litellm_all import PARTS
from ..keys.redis_store import warn_of_lost_keys
from ..litellm_host.app import add_callbacks
from ..litellm_host.configuration import check_configuration
from ..litellm_host.routing.model_route import model_routes
from ..litellm_host.routing.router import model_names, placements
from ..routing.health import Health
from ..settings import settings
from ..state import gateway
from .background import stop_all
from .traffic import begin_models

RETURN_SECONDS = 30.0
"""Time between two returns of freed memory. Each takes milliseconds of another thread."""
NEW_OBJECTS = 10_000
"""Number of new objects after which the youngest ones are collected."""


def extend_lifespan(app: Any) -> None:
    """Add Toolgate's start-up and shutdown work to the lifespan of LiteLLM's app."""
    lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def with_ours(app: Any) -> AsyncIterator[Any]:
        async with lifespan(app) as state:
            check_configuration()
            tracing.start("toolgate-gateway")
            _freeze_heap()
            health = Health(gateway().deployments, lambda: placements(None))
            begun = _connect_to_grammars(), warn_of_lost_keys(settings()), health.check_forever()
            work = [asyncio.create_task(each) for each in (*begun, _return_memory())]
            add_callbacks()
            begin_models(model_names())
            for part in PARTS:
                part.begin_series()
            _print_routes()
            _print_response_store()
            await gateway().limiter.started()
            if (key_sync := gateway().key_sync) is not None:
                await key_sync.started()
            try:
                yield state
            finally:
                for task in work:
                    task.cancel()
                await stop_all()
                await gateway().aclose()
                await asyncio.to_thread(tracing.stop)

    app.router.lifespan_context = with_ours


def _print_routes() -> None:
    """Print for each model with Toolgate backends which route answers its requests, and why."""
    for model in model_names():
        route = model_routes().find(model)
        if route is not None and route.reason is not None:
            print(f"Model {model}: LiteLLM's route, because of {route.reason}.", flush=True)
        elif route is not None:
            print(f"Model {model}: own route.", flush=True)


def _print_response_store() -> None:
    """Print where responses are stored, if it is not Redis."""
    if gateway().responses.kept == "process":
        print(
            "Responses are stored in this process: other processes cannot read them, and they are "
            "lost when it ends. Set TOOLGATE_REDIS_URL and TOOLGATE_FLEET_SECRET.",
            flush=True,
        )


def _freeze_heap() -> None:
    """Exclude the objects that exist at start-up from garbage collection. A full collection over
    LiteLLM's modules takes 0.3 s or more, in which no client's stream continues. A request with 300
    tools allocates 20,000 objects, for which Python's own threshold of 700 collects 30 times."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


async def _return_memory() -> None:
    """Return the memory of large bodies, whose values lay among objects that stay."""
    while True:
        await asyncio.sleep(RETURN_SECONDS)
        await asyncio.to_thread(return_freed)


async def _connect_to_grammars() -> None:
    if (cache := gateway().deployments.shared_cache) is not None:
        await cache.redis.connected()  # so that no request waits for it
