"""Prometheus metrics of the grammars that requests need."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from toolgate_core.errors import SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.metric_series import begin_at_zero

from ..grammar_loads import TIERS

GRAMMARS = Counter(
    "toolgate_grammars",
    "Grammars that requests needed, by where each one was found: `memory` (this process had seen "
    "it loaded), `redis` (loaded from a record in Redis) or `compiled` (compiled by a backend).",
    ["tier"],
)
begin_at_zero(GRAMMARS, TIERS)
REFUSED = Counter(
    "toolgate_grammars_refused",
    "Tool schemas that a backend refused to compile, by error code.",
    ["code"],
)
begin_at_zero(REFUSED, (SchemaNotEnforceable.code, SchemaTooComplex.code))
COMPILE_SECONDS = Histogram(
    "toolgate_grammar_compile_seconds",
    "Time that a backend reported for compiling one grammar, by grammar engine.",
    ["engine"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
KNOWN = Gauge(
    "toolgate_grammars_known",
    "Grammars in this process's list of those loaded at a backend, by backend URL.",
    ["backend"],
    multiprocess_mode="livemax",
)
WAITS = Counter(
    "toolgate_grammar_waits",
    "Grammars that a request waited for because another request was already loading them: in the "
    "same process (`process`) or in another gateway process (`fleet`).",
    ["where"],
)
begin_at_zero(WAITS, ("process", "fleet"))
RECORDS_DROPPED = Counter(
    "toolgate_records_dropped",
    "Grammar records in Redis that were rejected, by reason: `size`, `form`, `version`, "
    "`signature` or `content`.",
    ["reason"],
)
begin_at_zero(RECORDS_DROPPED, ("size", "form", "version", "signature", "content"))
RECORD_BYTES = Histogram(
    "toolgate_record_bytes",
    "Size of the grammar records written to Redis.",
    buckets=(256, 1024, 4096, 16384, 65536, 262144, 1048576),
)
