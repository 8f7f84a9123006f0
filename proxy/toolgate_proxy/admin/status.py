"""What `GET /toolgate/status` says: the state of this gateway's process, for its administrator."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from ..litellm_host.deployments import router
from ..litellm_host.state import model_routes
from ..routing.deployments import Deployment, Deployments
from ..state import gateway


class BackendStatus(BaseModel):
    url: str
    model: str
    """What the backend calls the model."""
    up: bool
    since: float
    """Seconds since 1970; when it last came or went."""
    error: str | None
    """The kind of what kept it from answering last; none while it answers."""
    probe_ms: float | None
    requests: int
    """Under way there, of this gateway's process."""
    grammars_known: int


class ModelStatus(BaseModel):
    model: str
    """As clients name it."""
    route: Literal["own", "litellm"]
    """Which way chat completions go: by the gateway's own route, or by LiteLLM's handler."""
    reason: str | None
    """What is configured for the model that the own route does not carry."""
    backends: list[BackendStatus]


class LimitsStatus(BaseModel):
    counted: Literal["fleet", "process", "unavailable"]
    """Over all gateways, by this process alone, or not at all: limited keys are refused."""
    in_flight: int


class Status(BaseModel):
    models: list[ModelStatus]
    """Those of our own backends; of other providers LiteLLM's `/health` knows."""
    keys: int
    limits: LimitsStatus
    fleet_cache: bool
    """Whether grammars are shared through Redis at this moment."""


def status(deployments: Deployments) -> Status:
    here = gateway()
    fleet = deployments.shared_cache
    return Status(
        models=[
            ModelStatus(
                model=name,
                route="litellm" if (why := _reason(name)) else "own",
                reason=why,
                backends=[_backend(deployments.at(place), place.model) for place in places],
            )
            for name in router.model_names()
            if (places := router.placements(name))
        ],
        keys=len(here.key_sync.key_cache) if here.key_sync is not None else 0,
        limits=LimitsStatus(
            counted=here.limiter.counted, in_flight=here.limiter.reservations.in_flight
        ),
        fleet_cache=fleet is not None and fleet.available,
    )


def _reason(model: str) -> str | None:
    found = model_routes().find(model)
    return "it also has deployments of another provider" if found is None else found.reason


def _backend(deployment: Deployment, model: str) -> BackendStatus:
    state = deployment.state
    return BackendStatus(
        url=deployment.url,
        model=model,
        up=state.up,
        since=state.since,
        error=state.error,
        probe_ms=state.probe_ms,
        requests=deployment.load.requests,
        grammars_known=deployment.grammars.known,
    )
