"""What the backend counts, on vLLM's own /metrics.

Registered in prometheus_client's default registry of the API process, which vLLM mounts at /metrics
(vllm/v1/metrics/prometheus.py `get_prometheus_registry`); with several API processes vLLM sets
PROMETHEUS_MULTIPROC_DIR before they start and sums what each wrote. The workers count nothing here:
their verdicts come to the API process, which does.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from toolgate_core.wire import GrammarVerdict

GRAMMAR_LOADS = Counter(
    "toolgate_backend_grammar_loads",
    "Grammars that the engine's workers took in, by where they came from: compiled there, or blob.",
    ["source"],
)
COMPILE_SECONDS = Histogram(
    "toolgate_backend_grammar_compile_seconds",
    "Processor time of one compile, by engine and place (worker or quarantine).",
    ["engine", "place"],
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
QUARANTINE_KILLS = Counter(
    "toolgate_backend_quarantine_kills",
    "Compiles ended by a limit: cpu, wall, memory; or crash.",
    ["limit"],
)
SCHEMA_REFUSALS = Counter(
    "toolgate_backend_schema_refusals",
    "Schemas refused, by error code.",
    ["code"],
)
BLOB_REJECTS = Counter(
    "toolgate_backend_blob_rejects",
    "Compiled grammars that were not what they said they were; compiled from the schema instead.",
)
LOADED_GRAMMARS = Gauge(
    "toolgate_backend_loaded_grammars",
    "Grammars that the engine's workers keep for this API process.",
    multiprocess_mode="livemax",  # every API process keeps its own list over the same workers
)


def compiled(verdict: GrammarVerdict, *, place: str) -> None:
    if verdict.compile_ms is not None:
        COMPILE_SECONDS.labels(verdict.engine or "none", place).observe(verdict.compile_ms / 1e3)
