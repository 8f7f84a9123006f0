"""All metrics of the gateway in Prometheus' text format.

Each package that has metrics defines them in its module `metrics`, in the default registry of
prometheus_client. LiteLLM's own /metrics therefore shows them too, where it is enabled.
"""

from __future__ import annotations

import os

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector


def exposition() -> bytes:
    """The metrics of this process, or of all worker processes that share a metrics folder."""
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):  # prometheus_client's own variable
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
