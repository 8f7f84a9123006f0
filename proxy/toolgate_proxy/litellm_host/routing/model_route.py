"""Decision by model, before LiteLLM checks a key: our own route, or LiteLLM's handler with our
provider. `toolgate proxy` prints it for each model at start-up, and `GET /toolgate/status` returns
it. `litellm_reasons` is the rule."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import litellm

from toolgate_core.host_probe import optional

from ...api.shared.parameter import CHAT_TABLE
from ...settings import Settings
from ...state import gateway
from ..hooks import CHOOSING, PRE_CALL, has, reads_responses, unsupported_callback, wants_events
from ..proxy_server import litellm_proxy
from .fallback_entries import configured_parameters
from .router import (
    PRICES,
    Row,
    Sender,
    Target,
    alias_target,
    is_limited,
    placement_of,
    registry,
    router,
    router_settings,
    rows_of,
)
from .selection import OWN_STRATEGIES

FRESH = 1.0
"""Seconds for which a decision is cached. LiteLLM's configuration may change at run time."""
MOST = 1000
"""Maximum number of cached decisions. A wildcard matches any number of models."""

DEPLOYMENT_FIELDS = PRICES | {
    *("api_base", "api_key", "cooldown_time", "custom_llm_provider", "drop_params", "extra_body"),
    *("litellm_credential_name", "max_retries", "model", "num_retries", "order", "request_timeout"),
    *("rpm", "stream_timeout", "tags", "timeout", "tpm", "weight"),
}
"""Fields of `litellm_params`, besides request parameters, that our route supports, or that have no
effect on `toolgate/` models on either route (time-outs are settings of the gateway)."""


@dataclass(frozen=True)
class ModelRoute:
    """The decision for one model. `targets`: its deployments, all of them Toolgate's."""

    model: str
    """The name in LiteLLM's router: the client's name, or the target of an alias."""
    targets: Sequence[Target]
    reason: str | None
    """Why requests take LiteLLM's route; None: they take our own."""
    strategy: str | None
    """Strategy by which our route selects a deployment; None: LiteLLM's router selects it."""
    hooks: bool
    """A callback has `async_pre_call_hook`."""
    events: bool
    """Callbacks, or LiteLLM's router, receive success and failure events."""
    reads: bool
    """Callbacks read or change responses, or run beside the request."""
    guardrails: Sequence[Any]
    """Those of its deployments. As in LiteLLM, one of any deployment is for all requests."""


class ModelRoutes:
    def __init__(self, settings: Settings) -> None:
        self._forced = settings.route == "litellm"
        self.decided = lru_cache(maxsize=MOST)(self._decided)

    def find(self, model: str, sender: Sender | None = None) -> ModelRoute | None:
        """Return None for an unknown model, or one that has deployments of another provider.
        `sender`: None for the deployments of all teams."""
        return self.decided(model, sender, time.monotonic() // FRESH)

    def _decided(self, model: str, sender: Sender | None, _: float) -> ModelRoute | None:
        aliases = litellm.model_alias_map or {}
        name = aliases.get(model, model)
        rows = rows_of(name, sender)
        targets = [target for row in rows if (target := target_of(row)) is not None]
        if not targets or len(targets) < len(rows):
            return None
        forced = ["TOOLGATE_ROUTE=litellm"] if self._forced else ()
        reason = next(chain(forced, litellm_reasons(name, rows)), None)
        strategy = _own_strategy(name, rows)
        reads = reads_responses()
        priced = litellm.include_cost_in_streaming_usage
        events = strategy is None or reads or wants_events() or priced
        hooks, guardrails = has(PRE_CALL, guardrail=True), guardrails_of(rows)
        return ModelRoute(name, targets, reason, strategy, hooks, events, reads, guardrails)


@lru_cache(maxsize=1)
def model_routes() -> ModelRoutes:
    """Return the routes of this process."""
    return ModelRoutes(gateway().settings)


def own_route(model: str, sender: Sender) -> ModelRoute | None:
    """Return how our own route serves a model, or None if requests take LiteLLM's route."""
    route = model_routes().find(model, sender)
    return None if route is None or route.reason is not None else route


def litellms_reason(model: str, sender: Sender | None = None) -> str | None:
    """Return why requests for a model with a Toolgate deployment take LiteLLM's route; None: they
    take our own. `sender`: None for the deployments of all teams."""
    route = model_routes().find(model, sender)
    return "it also has deployments of another provider" if route is None else route.reason


def litellm_reasons(model: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the configuration of a model that our own route does not support."""
    general = litellm_proxy().general_settings
    if (unsupported := unsupported_callback()) is not None:
        yield unsupported
    if litellm.max_budget and litellm_proxy().user_custom_auth is not None:
        yield "`max_budget` in litellm_settings"
    if litellm.pre_call_rules or litellm.post_call_rules:
        yield "LiteLLM's rules (`pre_call_rules`, `post_call_rules`)"
    if general.get("completion_model"):
        yield "`completion_model` in general_settings"
    for name, parameter in configured_parameters(model):
        if parameter not in FALLBACK_PARAMETERS:
            yield f"`{parameter}` in `{name}`"
    for name, value in (router_settings().default_litellm_params or {}).items():
        if value and name not in (*PARAMETERS, *DEPLOYMENT_FIELDS, "metadata"):
            yield f"`{name}` in default_litellm_params"
    for row in rows:
        for name, value in row["litellm_params"].items():
            if value not in (None, False, {}, []) and name not in _CARRIED:
                yield f"`{name}` in litellm_params"


PARAMETERS = frozenset(
    name for name, row in CHAT_TABLE.items() if row.origin != "LiteLLM" or name == "thinking"
) - {"messages", "model", "stream", "tools"}
"""Parameters for which a deployment may have defaults. LiteLLM merges a deployment's tools with
the request's, so `tools` is not among them."""
FALLBACK_PARAMETERS = PARAMETERS | {"messages", "tools"}
"""Parameters that a fallback may replace."""
_CARRIED = PARAMETERS | DEPLOYMENT_FIELDS | PRICES | {"guardrails", "max_parallel_requests"}


def guardrails_of(rows: Sequence[Row]) -> list[Any]:
    """Return the guardrails in the `litellm_params` of deployments."""
    found: list[Any] = []
    for row in rows:
        given = row["litellm_params"].get("guardrails") or []
        named = given if isinstance(given, list) else [given]
        found += [each for each in named if each not in found]
    return found


def target_of(row: Row) -> Target | None:
    """Return the deployment with its default parameters; None for another provider's."""
    placement, params = placement_of(row), row["litellm_params"]
    if placement is None:
        return None
    given = {name: value for name, value in params.items() if name in PARAMETERS}
    given |= _router_defaults()
    given |= params.get("extra_body") or {}
    defaults = {name: value for name, value in given.items() if value is not None}
    return Target(row, placement, defaults)


def _router_defaults() -> dict[str, Any]:
    """Return the parameters in `default_litellm_params`. LiteLLM prefers them to a deployment's."""
    configured = router_settings().default_litellm_params or {}
    names = PARAMETERS - DEPLOYMENT_FIELDS - {"metadata"}
    return {name: value for name, value in configured.items() if name in names}


def _own_strategy(model: str, rows: Sequence[Row]) -> str | None:
    """Return the strategy, if nothing else affects the selection: no limits, tags, order or
    checks."""
    settings, strategy = router_settings(), _strategy(model)
    decided_otherwise = (
        strategy not in OWN_STRATEGIES
        or settings.enable_pre_call_checks
        or settings.enable_tag_filtering
        or router().optional_callbacks
        or not settings.disable_cooldowns
        or has(*CHOOSING)
        or any(is_limited(row) or _is_special(row) for row in rows)
    )
    return None if decided_otherwise else strategy


def _strategy(model: str) -> str | None:
    """Return the strategy of the model's routing group or of the router; None if the model is a
    group."""
    name, held = alias_target(model) or model, router_settings()
    for group in registry().routing_groups().values():
        if group.group_name == name:
            return None
        held = group if name in group.models else held
    return str(optional(held.routing_strategy, "value", held.routing_strategy))  # may be an enum's


def _is_special(row: Row) -> bool:
    params, info = row["litellm_params"], row.get("model_info") or {}
    return params.get("order") is not None or bool(params.get("tags")) or bool(info.get("blocked"))
