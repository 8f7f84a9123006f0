"""The grammars of this backend, and the process that compiles new ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vllm.logger import init_logger

from toolgate_core import wire
from toolgate_core.errors import UnsupportedParameter

from ..errors import QuarantineUnavailable
from ..grammars.quarantine.fork_server import ForkServer
from ..grammars.quarantine.protocol import CompileLimits
from ..grammars.quarantine.service import Quarantine
from ..grammars.registry import GrammarRegistry
from ..grammars.store import grammar_format
from ..grammars.worker_rpc import Rpc, WorkerRpc
from ..settings import Settings
from ..tokens.vocabulary import Vocabulary
from .instances import check_instances

logger = init_logger(__name__)


class ToolGrammars:
    def __init__(self, rpc: Rpc, vocabulary: Vocabulary, configured: Settings) -> None:
        self._dialect = vocabulary.dialect
        limits = CompileLimits(
            cpu_seconds=configured.quarantine_cpu_seconds,
            wall_seconds=configured.quarantine_wall_seconds,
            memory_bytes=configured.quarantine_memory_mb * 2**20,
        )
        self._quarantine = Quarantine(
            lambda: ForkServer.start(vocabulary), limits, workers=configured.quarantine_workers
        )
        self.registry = GrammarRegistry(
            WorkerRpc(rpc),
            self._quarantine,
            dialect=vocabulary.dialect.name,
            tokenizer=vocabulary.fingerprint,
            grammar_format=grammar_format(),
            capacity=configured.max_grammars,
            schema_limits=configured.schema_limits,
            blob_cache_bytes=configured.blob_cache_mb * 2**20,
        )

    async def warm_up(self) -> None:
        """Start the quarantine before the server is ready. Its imports would take minutes next to a
        busy engine, and the first new tool would have to wait for them."""
        if not self._dialect.calls:
            return
        try:
            await self._quarantine.wait_until_ready()
        except QuarantineUnavailable:
            logger.exception(
                "Toolgate: the quarantine process did not start. Requests with new tool schemas "
                "will get 503."
            )

    async def load(self, wanted: wire.LoadGrammars) -> wire.GrammarVerdicts:
        """Load the new grammars on every rank. Return when each has a verdict."""
        self._require_calls()
        verdicts = await self.registry.load(wanted.grammars, want_blobs=wanted.want_blobs)
        return wire.GrammarVerdicts(grammars=tuple(verdicts))

    async def walk(self, wanted: wire.WalkInstances) -> wire.InstanceWalks:
        """Walk instances through a tool's masks, in the quarantine and under its limits."""
        self._require_calls()
        check_instances(wanted.instances, self._dialect)
        return await self.registry.walk(wanted.grammar, wanted.instances)

    @contextmanager
    def pinned(self, enforcement: wire.Enforcement | None) -> Iterator[None]:
        """Keep the grammars of a request loaded. Raise GrammarUnknown and BackendUnavailable."""
        if enforcement is None:
            yield
            return
        earlier = enforcement.accepted_candidates or ()
        keys = [candidate.key for candidate in (*enforcement.candidates, *earlier)]
        if enforcement.content is not None:
            keys.append(enforcement.content)
        with self.registry.pin(keys):
            self.registry.require_ready(keys)
            yield

    def _require_calls(self) -> None:
        if not self._dialect.calls:
            raise UnsupportedParameter(
                "This model's tokenizer has no tool-call marks of a supported dialect, so tools "
                "cannot be enforced. Remove tools, or use a supported model.",
                param="tools",
            )
