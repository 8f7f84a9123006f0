"""Whether this gateway can serve its models: for load balancers and orchestrators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .deployments import Deployments, Placement


def models_without_backend(
    deployments: Deployments, models: Mapping[str, Sequence[Placement]]
) -> list[str]:
    """The models of which no backend has responded since this process started.

    A backend that fails later does not count: all gateways would become unready at once, and the
    other models with them. `/toolgate/status` shows it.
    """
    return [
        name
        for name, places in models.items()
        if places and not any(deployments.at(place).state.has_responded for place in places)
    ]
