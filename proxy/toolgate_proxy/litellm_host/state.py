"""Per-process singletons: the route of each model, and the selection of deployments."""

from __future__ import annotations

from functools import lru_cache

from ..state import gateway
from .deployments.model_route import ModelRoutes
from .deployments.selection import Selection


@lru_cache(maxsize=1)
def selection() -> Selection:
    here = gateway()
    return Selection(here.deployments, here.affinity)


@lru_cache(maxsize=1)
def model_routes() -> ModelRoutes:
    return ModelRoutes(gateway().settings)
