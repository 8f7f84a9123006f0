"""The backend's Prometheus metrics, shown by vLLM's own /metrics.

They are in the default registry of prometheus_client in the API process, which vLLM mounts at
/metrics (vllm/v1/metrics/prometheus.py `get_prometheus_registry`). With several API processes vLLM
sets PROMETHEUS_MULTIPROC_DIR before they start and adds up their values. The engine's workers have
no metrics: their verdicts reach the API process, which counts them.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from toolgate_core.errors import SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.metric_series import begin_at_zero
from toolgate_core.wire import GrammarVerdict

GRAMMAR_LOADS = Counter(
    "toolgate_backend_grammar_loads",
    "Grammars loaded by the engine's workers: `compiled` from the schema, or `blob` (from the "
    "gateway).",
    ["source"],
)
begin_at_zero(GRAMMAR_LOADS, ("compiled", "blob"))
COMPILE_SECONDS = Histogram(
    "toolgate_backend_grammar_compile_seconds",
    "Processor time for compiling one grammar, by engine and place: `quarantine` or `worker`.",
    ["engine", "place"],
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
QUARANTINE_KILLS = Counter(
    "toolgate_backend_quarantine_kills",
    "Quarantined compiles that exceeded a limit (`cpu`, `wall` or `memory`), or ended by a "
    "`crash`.",
    ["limit"],
)
begin_at_zero(QUARANTINE_KILLS, ("cpu", "wall", "memory", "crash"))
SCHEMA_REFUSALS = Counter(
    "toolgate_backend_schema_refusals",
    "Tool schemas refused, by error code.",
    ["code"],
)
begin_at_zero(SCHEMA_REFUSALS, (SchemaNotEnforceable.code, SchemaTooComplex.code))
BLOB_REJECTS = Counter(
    "toolgate_backend_blob_rejects",
    "Compiled grammars from the gateway that could not be loaded.",
)
ABANDONED_LOADS = Counter(
    "toolgate_backend_abandoned_loads",
    "Grammars that passed the quarantine, but whose load in the engine did not end within the "
    "limits.",
)
LOADED_GRAMMARS = Gauge(
    "toolgate_backend_loaded_grammars",
    "Grammars that this API process keeps loaded in the engine's workers.",
    multiprocess_mode="livemax",  # every API process keeps its own list over the same workers
)


def compiled(verdict: GrammarVerdict, *, place: str) -> None:
    if verdict.compile_ms is not None:
        COMPILE_SECONDS.labels(verdict.engine or "none", place).observe(verdict.compile_ms / 1e3)
