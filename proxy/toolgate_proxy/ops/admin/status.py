"""Response of `GET /toolgate/status`: the state of this gateway process, for the administrator."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Literal

from pydantic import BaseModel

from toolgate_core.version import VERSION

from ...litellm_host.auth import has_database
from ...litellm_host.deployments import router
from ...litellm_host.deployments.own_route import litellms_reason
from ...recent_requests import Minute
from ...routing.deployments import Deployment, Deployments
from ...state import gateway


class BackendDescription(BaseModel):
    vllm: str
    """vLLM's version."""
    adapter: str
    dialect: str
    max_model_len: int
    """Context length, in tokens."""


class ReplicaStatus(BaseModel):
    replica: str
    """An opaque name of its engine."""
    fingerprint: str
    """Of what must be the same at all replicas of an address: the model, its tokenizer and dialect,
    and limits."""


class BackendStatus(BaseModel):
    url: str
    model: str
    """The model's name at the backend."""
    up: bool
    since: datetime
    """Time of the last change of `up`, in UTC."""
    error: str | None
    """Cause of the last error. None while the backend responds."""
    probe_ms: float | None
    requests: int
    """In-flight requests of this gateway process."""
    replicas: list[ReplicaStatus]
    """Those behind the address that responded to this gateway process in the last 30 seconds."""
    description: BackendDescription | None
    """None until the backend has responded."""


class ModelStatus(BaseModel):
    model: str
    """The model's name for clients."""
    route: Literal["own", "litellm"]
    """Handler of chat completions: Toolgate's own route or LiteLLM's route."""
    reason: str | None
    """The setting that the own route does not support. None for the own route."""
    backends: list[BackendStatus]


class LimitsStatus(BaseModel):
    counted: Literal["fleet", "process", "unavailable"]
    """Limits are counted across all gateways, by this process alone, or not at all. In the last
    case, requests with limited keys are refused."""
    in_flight: int


class FirstTokenTimes(BaseModel):
    """Of streamed responses, in milliseconds."""

    p50: float
    p90: float
    p99: float


class MinuteOfRequests(BaseModel):
    minute: datetime
    """Its start, in UTC."""
    requests: int
    refused: int
    """With a status of 4xx."""
    failed: int
    """With a status of 5xx, or an error in a stream."""
    omitted: int
    """Of which the model did not see all as it was sent: hosted tools, or a part of the history."""
    first_token_ms: FirstTokenTimes | None
    """None without a streamed response."""


class Versions(BaseModel):
    toolgate: str
    litellm: str


class Status(BaseModel):
    time: datetime
    """Of this response, in UTC."""
    versions: Versions
    models: list[ModelStatus]
    """Models with Toolgate backends. LiteLLM's `/health` reports on other providers."""
    others: dict[str, list[str]]
    """All other models, with the models of their providers."""
    recent: list[MinuteOfRequests]
    """Requests that this process answered in the last minutes, the earliest first."""
    keys: int
    limits: LimitsStatus
    fleet_cache: bool
    """Whether the shared cache in Redis is available."""
    responses: Literal["fleet", "process", "unavailable"]
    """Responses are stored for all gateways in Redis, or by this process alone. `unavailable` while
    Redis does not respond."""
    database: bool
    """Whether LiteLLM's database is in use. Only then LiteLLM's own UI can be used."""


def status(deployments: Deployments) -> Status:
    state = gateway()
    cache = deployments.shared_cache
    names = router.model_names()
    return Status(
        time=datetime.now(UTC),
        versions=Versions(toolgate=VERSION, litellm=version("litellm")),
        models=[
            ModelStatus(
                model=name,
                route="litellm" if (why := litellms_reason(name)) else "own",
                reason=why,
                backends=[_backend(deployments.at(place), place.model) for place in places],
            )
            for name in names
            if (places := router.placements(name))
        ],
        others={
            name: [row["litellm_params"]["model"] for row in router.rows_of(name)]
            for name in names
            if not router.has_toolgate(name)
        },
        recent=[_minute(each) for each in state.recent_requests.minutes()],
        keys=len(state.key_sync.key_cache) if state.key_sync is not None else 0,
        limits=LimitsStatus(
            counted=state.limiter.counted, in_flight=state.limiter.reservations.in_flight
        ),
        fleet_cache=cache is not None and cache.available,
        responses=state.responses.kept,
        database=has_database(),
    )


def _backend(deployment: Deployment, model: str) -> BackendStatus:
    state = deployment.state
    return BackendStatus(
        url=deployment.url,
        model=model,
        up=state.up,
        since=datetime.fromtimestamp(state.since, UTC),
        error=state.error,
        probe_ms=state.probe_ms,
        requests=deployment.load.requests,
        replicas=[
            ReplicaStatus(replica=each.name, fingerprint=each.fingerprint)
            for each in deployment.replicas.seen()
        ],
        description=_description(deployment),
    )


def _description(deployment: Deployment) -> BackendDescription | None:
    info = deployment.backend.last_info
    if info is None:
        return None
    return BackendDescription(
        vllm=info.vllm_version,
        adapter=info.adapter,
        dialect=info.dialect,
        max_model_len=info.limits.max_model_len,
    )


def _minute(minute: Minute) -> MinuteOfRequests:
    return MinuteOfRequests(
        minute=datetime.fromtimestamp(minute.start * 60, UTC),
        requests=minute.requests,
        refused=minute.refused,
        failed=minute.failed,
        omitted=minute.omitted,
        first_token_ms=_first_token_times(sorted(minute.first_token_seconds)),
    )


def _first_token_times(seconds: list[float]) -> FirstTokenTimes | None:
    if not seconds:
        return None
    p50, p90, p99 = (
        round(seconds[min(len(seconds) - 1, int(len(seconds) * part))] * 1000, 1)
        for part in (0.5, 0.9, 0.99)
    )
    return FirstTokenTimes(p50=p50, p90=p90, p99=p99)
