"""The compiled grammars of one engine process, by key.

Each worker has one store. Loading returns immediately: blobs and compiles run in a small thread
pool, outside the step loop, and the caller polls for the verdict. The API processes decide which
grammars are loaded (registry.py). Each is an owner of its grammars; a grammar is removed when its
last owner releases it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Barrier, Lock

from toolgate_core.errors import BackendUnavailable, SchemaTooComplex
from toolgate_core.wire import GrammarVerdict, ResidualKeyword

from ..errors import BlobRejected, GrammarNotLoaded
from ..settings import settings
from ..tokens.vocabulary import Vocabulary
from .compiled_grammar import MeasuredGrammar
from .compiler import NICENESS, Compiler, CompileResult, RewrittenSchema
from .completions.hints import hints_of
from .usual_length import extra_tokens
from .value_limits import limits_of

COMPILER_CACHE_BYTES = 512 * 1024 * 1024
STACK_BYTES = 32 * 2**20
"""Stack size of a compiling thread. The memory is reserved, not used."""
RETRIED = (SchemaTooComplex.code, BackendUnavailable.code)
"""Codes of refusals after which a grammar is tried again."""
FORMAT = 12
"""Version of the compiled format. Increase it when the envelope, the options, the preparation of
schemas or `choose` change."""


def grammar_format() -> str:
    """The version part of grammar keys, from Toolgate's format, the order of members and both
    engines' versions."""
    from importlib.metadata import version

    order = "" if settings().member_order == "any" else "-ordered"
    return f"{FORMAT}{order}-xg{version('xgrammar')}-ll{version('llguidance')}"


@dataclass
class _Entry:
    owners: set[str] = field(default_factory=set)
    verdict: GrammarVerdict | None = None
    compiled: MeasuredGrammar | None = None


class GrammarStore:
    def __init__(self, vocabulary: Vocabulary, *, threads: int = 2) -> None:
        self._compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=COMPILER_CACHE_BYTES)
        self._entries: dict[str, _Entry] = {}
        self._lock = Lock()
        self._pool = _compile_pool(threads)
        self.cache_warmed = self._pool.submit(self._compiler.warm_cache)
        """Done when the parts that nearly all tools share are compiled."""

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, owner: str, sources: Mapping[str, str]) -> None:
        """Start to load the keys that are not loaded yet, and return immediately.

        Each source is the JSON of `{name, parameters, blob, rewritten, residual, least_tokens,
        growth}`, in which `parameters` and `rewritten` are JSON texts. The pool parses them. A
        grammar that was too complex, or that this process failed to load, is tried again.
        """
        for key, source in sources.items():
            with self._lock:
                loaded = key in self._entries
                entry = self._entries.setdefault(key, _Entry())
                entry.owners.add(owner)
                retry = entry.verdict is not None and entry.verdict.code in RETRIED
                if retry:
                    entry.verdict = None
            if retry or not loaded:
                self._pool.submit(self._load, key, source)

    def verdicts(self, keys: Iterable[str]) -> list[GrammarVerdict]:
        """The verdicts of those `keys` that have one."""
        entries = (self._entries.get(key) for key in keys)
        return [entry.verdict for entry in entries if entry is not None and entry.verdict]

    def release(self, owner: str, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                entry = self._entries.get(key)
                if entry is not None:
                    entry.owners.discard(owner)
                    if not entry.owners:
                        del self._entries[key]

    def get(self, key: str) -> MeasuredGrammar:
        entry = self._entries.get(key)
        if entry is None or entry.compiled is None:
            raise GrammarNotLoaded(
                f"Grammar {key} is not loaded in process {os.getpid()}. Load it with PUT "
                "/v1/toolgate/grammars before the request."
            )
        return entry.compiled

    def _load(self, key: str, source: str) -> None:
        compiled: MeasuredGrammar | None = None
        try:
            verdict, compiled = self._load_or_compile(key, **json.loads(source))
        except BaseException as error:  # noqa: BLE001 - without a verdict, the caller would poll forever
            verdict = GrammarVerdict(
                key=key,
                status="refused",
                reason=f"the engine could not load it ({type(error).__name__})",
                code=BackendUnavailable.code,  # not the schema's fault: it passed the quarantine
            )
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                entry.compiled, entry.verdict = compiled, verdict

    def _load_or_compile(
        self,
        key: str,
        *,
        name: str,
        parameters: str,
        blob: str | None = None,
        rewritten: str | None = None,
        residual: Sequence[dict[str, str]] = (),
        least_tokens: int | None = None,
        growth: int | None = None,
    ) -> tuple[GrammarVerdict, MeasuredGrammar | None]:
        keywords = tuple(ResidualKeyword.model_validate(keyword) for keyword in residual)
        # The quarantine has already rewritten the schema, so it is used unchanged.
        schema_for_engine = RewrittenSchema(rewritten or parameters, keywords)
        outcome: CompileResult | None = None
        if blob is not None:
            with suppress(BlobRejected):  # the verdict shows that the grammar was compiled instead
                outcome = self._compiler.load(key, blob, parameters, schema_for_engine)
        outcome = outcome or self._compiler.compile(key, name, parameters, schema_for_engine)
        if outcome.grammar is None:
            return outcome.verdict, None
        _ = outcome.grammar.fixed_prefix  # computed here, outside the step loop, and cached
        measurements = {"least_tokens": least_tokens, "growth": growth}
        verdict = outcome.verdict.model_copy(update=measurements)
        schema = json.loads(parameters)
        measured = MeasuredGrammar(
            outcome.grammar,
            least_tokens,
            growth or 0,
            name,
            extra_tokens(schema),
            hints_of(schema),
            limits_of(outcome.grammar, schema),
        )
        return verdict, measured


def _lower_priority() -> None:
    """Lower this thread's priority below that of the engine, whose niceness it inherited."""
    with suppress(OSError):  # only Linux has a niceness for each thread
        niceness = min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def _compile_pool(threads: int) -> ThreadPoolExecutor:
    """A pool whose threads have larger stacks than the quarantine's process. Native code that
    recursed without a stack overflow there must not overflow here. A thread's default stack may be
    2 MB, whereas that of a process is not limited."""
    before = threading.stack_size(STACK_BYTES)
    try:
        pool = ThreadPoolExecutor(
            threads, thread_name_prefix="toolgate-compile", initializer=_lower_priority
        )
        barrier = Barrier(threads)
        for _ in range(threads):  # each job starts a thread, because the earlier ones wait
            pool.submit(barrier.wait)
    finally:
        threading.stack_size(before)
    return pool


# --- methods added to vLLM's workers ---

_installed: GrammarStore | None = None
_sequences = 0


def install(store: GrammarStore) -> None:
    """Make `store` the store of this process's worker methods."""
    global _installed
    _installed = store


def installed_store() -> GrammarStore:
    if _installed is None:
        raise GrammarNotLoaded(
            "The logits processor of Toolgate is not installed in this worker. Start the server "
            "with `toolgate backend`."
        )
    return _installed


def report_sequences(count: int) -> None:
    """Set the number of sequences that the adapter has now."""
    global _sequences
    _sequences = count


def worker_load(_worker: object, owner: str, sources: dict[str, str]) -> None:
    """The sources are strings, because vLLM's RPC transfers plain values. The pool parses them."""
    installed_store().load(owner, sources)


def worker_verdicts(_worker: object, keys: list[str]) -> list[str]:
    return [verdict.model_dump_json() for verdict in installed_store().verdicts(keys)]


def worker_release(_worker: object, owner: str, keys: list[str]) -> None:
    installed_store().release(owner, keys)


def worker_report(_worker: object) -> dict[str, int]:
    """Numbers for tests and status pages."""
    return {"grammars": len(installed_store()), "sequences": _sequences}


WORKER_METHODS = {
    "toolgate_load": worker_load,
    "toolgate_verdicts": worker_verdicts,
    "toolgate_release": worker_release,
    "toolgate_report": worker_report,
}
