"""Selection of a deployment for a request: on our own route by `Selection.choose`, on LiteLLM's
route by its router, after `SelectionHook` has filtered the deployments."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

import litellm
from litellm.integrations.custom_logger import CustomLogger

from ...routing.deployments import Deployments, Placement
from ...routing.prefix_affinity import PrefixAffinity
from ...state import gateway
from ..context import owner_of
from .router import Row, Target, id_of, is_limited, placement_of, router_settings, weights_of

PARALLEL = "max_parallel_requests"
RETRY_AFTER = "1"
OWN_STRATEGIES = ("simple-shuffle", "least-busy")
"""Strategies of LiteLLM's router that `choose` implements."""


class Slots:
    """The requests in flight at deployments, as far as `max_parallel_requests` limits them.

    As in LiteLLM, each process counts on its own, and a request that finds no slot is refused at
    once. LiteLLM's own counters belong to its handler and are not public.
    """

    def __init__(self) -> None:
        self._taken: Counter[str | None] = Counter()
        """By id of the deployment."""

    def has_free(self, row: Row) -> bool:
        """Return whether a deployment may have another request."""
        limit = limit_of(row)
        return limit is None or self._taken[id_of(row)] < limit

    @contextmanager
    def hold(self, row: Row) -> Iterator[None]:
        """Hold a slot of a deployment. Raise RateLimitError if none is free."""
        if limit_of(row) is None:
            yield
            return
        if not self.has_free(row):
            raise _full(row["model_name"])
        deployment = id_of(row)
        self._taken[deployment] += 1
        try:
            yield
        finally:
            self._taken[deployment] -= 1
            if not self._taken[deployment]:
                del self._taken[deployment]


def limit_of(row: Row) -> int | None:
    """Return the maximum number of requests in flight of a deployment."""
    given = row["litellm_params"].get(PARALLEL)
    if given is None:
        given = router_settings().default_max_parallel_requests
    return int(given) or None if given is not None else None


def _full(model: str) -> litellm.RateLimitError:
    error = litellm.RateLimitError(
        f"The model {model!r} has as many requests as its `{PARALLEL}` allows. Send the request "
        "again.",
        llm_provider="",
        model=model,
    )
    error.headers = {"retry-after": RETRY_AFTER}
    return error


class Selection:
    """Selects by health, prefix affinity, load and weight."""

    def __init__(self, deployments: Deployments, affinity: PrefixAffinity) -> None:
        self.deployments = deployments
        self._affinity = affinity
        self.slots = Slots()

    def choose(
        self,
        model: str,
        targets: Sequence[Target],
        strategy: str,
        body: Mapping[str, Any],
        owner: str = "",
    ) -> Target:
        """Return one of a model's deployments. `strategy`: one of OWN_STRATEGIES. `owner`: the key
        or team that sent the request."""
        if len(targets) == 1:
            return targets[0]
        by_row = {id(target.row): target for target in targets}
        left = self.up([target.row for target in targets])
        left, _ = self.preferred(model, left, body, owner)
        if strategy == "least-busy":
            loads = [self._load(row) for row in left]
            left = [row for row, load in zip(left, loads, strict=True) if load == min(loads)]
        return by_row[id(random.choices(left, weights_of(left))[0])]  # noqa: S311  chooses by weight

    def up(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows without Toolgate backends that are down, or all rows if all are down; and
        of these the ones with a free slot, if there are any."""
        if len(rows) < 2:
            return [*rows]
        left = [row for row in rows if self._is_up(row)] or [*rows]
        return [row for row in left if self.slots.has_free(row)] or left

    def preferred(
        self,
        model: str,
        rows: Sequence[Row],
        request: Mapping[str, Any],
        owner: str = "",
    ) -> tuple[list[Row], Placement | None]:
        """Return the rows at the placement that the prompt's prefix or its `prompt_cache_key`
        prefers, and that placement.

        Return all rows and None if there is no preference, if a row is another provider's (its
        load is unknown), or if a row has limits (LiteLLM enforces them).
        """
        if len(rows) < 2 or any(placement_of(row) is None or is_limited(row) for row in rows):
            return [*rows], None
        rows_at: dict[Placement, list[Row]] = defaultdict(list)
        weights: dict[Placement, float] = defaultdict(float)
        for row, weight in zip(rows, weights_of(rows), strict=True):
            replicas = self._places(row)
            for each in replicas:
                rows_at[each].append(row)
                weights[each] += weight / len(replicas)
        placement = self._affinity.choose(model, weights, request, owner)
        return (rows_at[placement], placement) if placement is not None else ([*rows], None)

    def replica(
        self, model: str, placement: Placement, request: Mapping[str, Any], owner: str
    ) -> Placement:
        """Return one of the replicas of a placement that LiteLLM has selected; the placement itself
        if it is not that of a name."""
        found = self.deployments.replicas_of(placement)
        if len(found) == 1:
            return found[0]
        left = [each for each in found if self.deployments.at(each).state.up] or found
        weights = dict.fromkeys(left, 1.0)
        preferred = self._affinity.choose(model, weights, request, owner)
        return preferred or random.choice(left)  # noqa: S311

    def alternatives(
        self, rows: Sequence[Row], tried: object, held: ExitStack | None = None
    ) -> list[Placement]:
        """Return the placements of the other backends that are up, in random order. `tried`: a
        Deployment. `held`: gets the slot of the alternative, which is the only one if slots are
        limited. Without it LiteLLM's handler limits them."""
        found = {placement for row in rows if (placement := placement_of(row)) is not None}
        left = [
            placement
            for placement in found
            if (deployment := self.deployments.at(placement)) != tried and deployment.state.up
        ]
        random.shuffle(left)
        if held is None or all(limit_of(row) is None for row in rows):
            return left
        own = {id_of(row) for row in rows if self._is_at(row, tried)}
        for placement in left:
            for row in rows:
                if placement_of(row) != placement:
                    continue
                if id_of(row) in own:  # another replica of its deployment, whose slot it has
                    return [placement]
                if self.slots.has_free(row):
                    held.enter_context(self.slots.hold(row))
                    return [placement]
        return []

    def row_at(self, rows: Sequence[Row], deployment: object) -> Row | None:
        """Return the first row at a Deployment."""
        return next((row for row in rows if self._is_at(row, deployment)), None)

    def _is_at(self, row: Row, deployment: object) -> bool:
        placement = placement_of(row)
        return placement is not None and self.deployments.at(placement) == deployment

    def _is_up(self, row: Row) -> bool:
        places = self._places(row)
        return not places or any(self.deployments.at(place).state.up for place in places)

    def _load(self, row: Row) -> int:
        placement = placement_of(row)
        return 0 if placement is None else self.deployments.at(placement).load.total

    def _places(self, row: Row) -> list[Placement]:
        """Return the placements of a deployment's replicas; none for another provider's."""
        placement = placement_of(row)
        return [] if placement is None else self.deployments.replicas_of(placement)


@lru_cache(maxsize=1)
def selection() -> Selection:
    """Return the selection of this process."""
    here = gateway()
    shared = here.settings.prefix_cache == "shared"
    return Selection(here.deployments, PrefixAffinity(here.deployments, shared=shared))


class SelectionHook(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    """Applies health and prefix affinity to requests on LiteLLM's route."""

    def __init__(self, selection: Selection) -> None:
        super().__init__()
        self._selection = selection

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[dict[str, Any]],
        messages: Any,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[dict[str, Any]]:
        """Return the rows from which LiteLLM's router may select. It filters by `order`, tags,
        context length and failures afterwards; if one of these applies, prefix affinity is
        skipped."""
        rows: list[Any] = self._selection.up(healthy_deployments)
        request = request_kwargs or {}
        if len(rows) < 2 or _is_retry(rows, request) or _narrowed_later(rows):
            return rows
        shown = {**request, "messages": messages} if messages else request
        preferred, placement = self._selection.preferred(model, rows, shown, owner_of(request))
        if placement is not None:
            self._selection.deployments.at(placement).load.expect()
        kept = {id(row) for row in preferred}
        return [row for row in rows if id(row) in kept]


def _narrowed_later(rows: Sequence[Row]) -> bool:
    if router_settings().enable_pre_call_checks:
        return True
    params = (row["litellm_params"] for row in rows)
    return any(each.get("order") is not None or each.get("tags") for each in params)


def _is_retry(rows: Sequence[Row], request: Mapping[str, Any]) -> bool:
    """Return whether the router has tried one of the rows for this request. It stores the attempts
    in the request: their number, which LiteLLM 1.110 updates too late for the first retry, and the
    last deployment."""
    if request.get("_excluded_deployment_ids"):
        return True
    ids = {id_of(row) for row in rows}
    held = [request.get(name) or {} for name in ("metadata", "litellm_metadata")]
    return any(
        each.get("attempted_retries") or (each.get("model_info") or {}).get("id") in ids
        for each in held
    )
