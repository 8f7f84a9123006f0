"""Compilation of new schemas in quarantine: in separate processes, with resource limits.

A schema that exceeds a limit is refused, and the refusal names the limit. A process that was killed
by anything else is no verdict on the schema.

The clients of the gateways share the processes: one that sends many expensive schemas delays its
own tools only.
"""

from __future__ import annotations

import logging
from functools import partial

from toolgate_core.errors import ChecksFailed
from toolgate_core.host_probe import usable_cores
from toolgate_core.killable import JobLimits, Limit, LimitExceeded, WorkerPool
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.wire import GrammarSource, GrammarVerdict

from ..settings import GrammarSettings, settings
from ..tokens.vocabulary import Vocabulary
from . import examination, metrics
from .compiler import NICENESS
from .examination import CompileJob

logger = logging.getLogger(__name__)

MIN_WORKERS, MAX_WORKERS = 2, 8
CPU_SECONDS = 5.0
"""Maximum processor time for compiling a new schema. The slowest of 3,107 real ones took 27 ms."""
WALL_SECONDS = 45.0
"""The same in wall-clock time. It is longer, so that a busy machine does not cause a refusal, and
shorter than the 60 s that a gateway waits for grammars."""
RENEW_SECONDS = 0.1
"""A process is replaced after a schema that took longer. This frees its memory, and the next tool
with the same expensive parts is measured as in a new process."""
ENVIRONMENT = {
    "TOKENIZERS_PARALLELISM": "false",  # no threads, because a fork does not copy them
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}


def default_workers() -> int:
    """Return a quarter of the cores: the engine and its GPU need the others."""
    return max(MIN_WORKERS, min(MAX_WORKERS, usable_cores() // 4))


class Quarantine:
    """`workers` schemas of one owner are compiled at the same time. One more worker is for the
    other owners."""

    def __init__(
        self, vocabulary: Vocabulary, limits: JobLimits, *, workers: int | None = None
    ) -> None:
        values = {name: str(getattr(settings(), name)) for name in GrammarSettings.model_fields}
        own = {f"TOOLGATE_{name.upper()}": value for name, value in values.items()}
        self.pool = WorkerPool(
            f"{examination.__name__}:{examination.work.__name__}",
            GrammarVerdict,
            limits,
            task="compile new tool schemas",
            workers=(workers or default_workers()) + 1,
            # About 10 MB: created when needed, not kept.
            setup=partial(examination.setup_of, vocabulary),
            environment=ENVIRONMENT | own,
            niceness=NICENESS,
            renew_seconds=RENEW_SECONDS,
        )

    async def warm_up(self) -> None:
        """Start the processes before the server is ready. Their imports would take minutes next to
        a busy engine, and the first new tool would have to wait for them. A failure is logged."""
        try:
            await self.pool.warm_up()
        except ChecksFailed:
            logger.exception(
                "Toolgate: the quarantine process did not start. Requests with new tool schemas "
                "will get 503."
            )

    async def examine(self, source: GrammarSource) -> GrammarVerdict:
        """Return the verdict, with `compile_ms`, and with `load_ms` and `blob` if they were
        measured. Raise ChecksFailed, which is not a verdict on the schema."""
        job = CompileJob(
            key=source.key,
            name=source.name,
            parameters=canonical_json(source.parameters),
        )
        try:
            verdict = await self.pool.run(job, source.owner)
        except LimitExceeded as exceeded:
            return self._refusal(job, exceeded.limit)
        except ChecksFailed as failed:
            logger.error("Toolgate: a tool schema could not be compiled: %s", failed)
            raise
        metrics.compiled(verdict, place="quarantine")
        return verdict

    def _refusal(self, job: CompileJob, limit: Limit) -> GrammarVerdict:
        metrics.QUARANTINE_KILLS.labels(limit).inc()
        cpu_seconds, wall_seconds, memory_bytes = self.pool.limits
        takes = {
            "cpu": f"takes more than {cpu_seconds:g} s of processor time",
            "wall": f"takes longer than {wall_seconds:g} s",
            "memory": f"takes more than {memory_bytes // 2**20:,} MB of memory",
            "crash": "crashes the grammar engine",
        }
        reason = f"compiling it {takes[limit]}. Split the tool or simplify its schema"
        return GrammarVerdict.too_complex(job.key, reason)
