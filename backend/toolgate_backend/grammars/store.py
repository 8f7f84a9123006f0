"""The compiled grammars of one engine process, by key.

Each worker has one store. Loading returns immediately: blobs and compiles run in a few threads,
outside the step loop, and the caller polls for the verdict. The API processes decide which grammars
are loaded (registry.py). Each is an owner of its grammars; a grammar is removed when its last owner
releases it.

All schemas have passed the quarantine, and nothing is computed from them here that the quarantine
can compute. A load that does not end all the same is abandoned (loader_threads.py), and its grammar
is refused from then on.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Lock
from typing import Any

from toolgate_core.errors import BackendUnavailable, SchemaTooComplex
from toolgate_core.host_probe import return_freed
from toolgate_core.killable import JobLimits
from toolgate_core.wire import MEASUREMENTS, GrammarVerdict

from ..errors import BlobRejected, GrammarNotLoaded
from ..settings import settings
from ..tokens.vocabulary import Vocabulary
from .compiled_grammar import MeasuredGrammar, limits_of
from .compiler import Compiler, CompileResult
from .loader_threads import RETURN_SECONDS, Abandoned, LoaderThreads
from .quarantine import CPU_SECONDS, WALL_SECONDS

logger = logging.getLogger(__name__)

THREADS = 2
LIMITS = JobLimits(cpu_seconds=2 * CPU_SECONDS, wall_seconds=4 * WALL_SECONDS)
"""The limits of a load. The quarantine has done more for the same schema."""
MAX_ABANDONED = 10_000
"""Maximum number of grammars that are remembered because their load was abandoned."""
RETRIED = (SchemaTooComplex.code, BackendUnavailable.code)
"""Codes of refusals after which a grammar is tried again."""
FORMAT = 21
"""Version of the compiled format. Increase it when the envelope, the options, the preparation of
schemas or `choose` change."""


def grammar_format() -> str:
    """Return the version part of grammar keys, from Toolgate's format, the order of members and
    both engines' versions."""
    from importlib.metadata import version

    order = "" if settings().member_order == "any" else "-ordered"
    return f"{FORMAT}{order}-xg{version('xgrammar')}-ll{version('llguidance')}"


@dataclass
class _Entry:
    owners: set[str] = field(default_factory=set)
    verdict: GrammarVerdict | None = None
    compiled: MeasuredGrammar | None = None


class GrammarStore:
    def __init__(self, vocabulary: Vocabulary, *, limits: JobLimits = LIMITS) -> None:
        rules_bytes = settings().rules_bytes
        self._compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=rules_bytes)
        self._entries: dict[str, _Entry] = {}
        self._abandoned: OrderedDict[str, GrammarVerdict] = OrderedDict()
        """Refusals of grammars whose load was abandoned. They stay when the grammar is released."""
        self._lock = Lock()
        self._threads = LoaderThreads(THREADS, limits)
        self._returned = time.monotonic()
        """When freed memory was returned to the system."""
        self.on_load: Callable[[MeasuredGrammar], object] = lambda grammar: None
        """Is called with each grammar before it is loaded, in the thread that loads it."""
        self.on_release: Callable[[MeasuredGrammar], None] = lambda grammar: None
        """Is called with each grammar that is no longer loaded."""
        self.cache_warmed: Future[None] = Future()
        """Done when the parts that nearly all tools share are compiled."""
        self._threads.submit(self._warm_cache)

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, owner: str, sources: Mapping[str, str]) -> None:
        """Start to load the keys that are not loaded yet, and return immediately.

        Each source is the JSON of `{name, parameters, examined}`, in which `parameters` is a JSON
        text and `examined` a verdict. The threads parse them. A grammar that
        was too complex, or that this process failed to load, is tried again."""
        for key, source in sources.items():
            with self._lock:
                loaded = key in self._entries
                entry = self._entries.setdefault(key, _Entry())
                entry.owners.add(owner)
                if key in self._abandoned:
                    entry.verdict = self._abandoned[key]
                    continue
                retry = entry.verdict is not None and entry.verdict.code in RETRIED
                if retry:
                    entry.verdict = None
            if retry or not loaded:
                self._threads.submit(partial(self._load, key, source), key)

    def verdicts(self, keys: Iterable[str]) -> list[GrammarVerdict]:
        """Return the verdicts of those `keys` that have one. The API processes poll while grammars
        load, so this is also where loads that do not end are found."""
        for key in self._threads.abandon_overdue():
            self._refuse(key)
        entries = (self._entries.get(key) for key in keys)
        return [entry.verdict for entry in entries if entry is not None and entry.verdict]

    def release(self, owner: str, keys: Iterable[str]) -> None:
        released: list[MeasuredGrammar] = []
        with self._lock:
            for key in keys:
                entry = self._entries.get(key)
                if entry is not None:
                    entry.owners.discard(owner)
                    if not entry.owners:
                        del self._entries[key]
                        released += [entry.compiled] if entry.compiled else []
        for grammar in released:
            self.on_release(grammar)
        if released and (now := time.monotonic()) - self._returned >= RETURN_SECONDS:
            self._returned = now
            self._threads.submit(return_freed)

    def get(self, key: str) -> MeasuredGrammar:
        entry = self._entries.get(key)
        if entry is None or entry.compiled is None:
            raise GrammarNotLoaded(
                f"Grammar {key} is not loaded in process {os.getpid()}. Send the request again."
            )
        return entry.compiled

    def _warm_cache(self) -> None:
        try:
            self._compiler.warm_cache()
        except Exception as error:  # noqa: BLE001 - passed on to the waiting caller
            self.cache_warmed.set_exception(error)
        else:
            self.cache_warmed.set_result(None)

    def _refuse(self, key: str) -> None:
        """Refuse a grammar whose load was abandoned, also if it is loaded again."""
        logger.error(
            "Toolgate: loading the grammar %s did not end within the limits. Its schema is refused "
            "from now on, and the thread was replaced. Report the schema as a fault of Toolgate.",
            key,
        )
        reason = "loading it takes too long. Split the tool or simplify its schema"
        verdict = GrammarVerdict.too_complex(key, reason)
        with self._lock:
            self._abandoned[key] = verdict
            if len(self._abandoned) > MAX_ABANDONED:
                self._abandoned.popitem(last=False)
            if key in self._entries:
                self._entries[key].verdict = verdict

    def _load(self, key: str, source: str) -> None:
        compiled: MeasuredGrammar | None = None
        try:
            verdict, compiled = self._compiled(key, **json.loads(source))
        except Abandoned:
            raise
        except BaseException as error:  # noqa: BLE001 - without a verdict, the caller would poll forever
            verdict = GrammarVerdict(
                key=key,
                status="refused",
                reason=f"the engine could not load it ({type(error).__name__})",
                code=BackendUnavailable.code,  # not the schema's fault: it passed the quarantine
            )
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and key not in self._abandoned:
                entry.compiled, entry.verdict = compiled, verdict

    def _compiled(
        self, key: str, *, name: str, parameters: str, examined: Mapping[str, Any] | None = None
    ) -> tuple[GrammarVerdict, MeasuredGrammar | None]:
        known = GrammarVerdict.model_validate(examined or {"key": key, "status": "ready"})
        outcome: CompileResult | None = None
        if known.blob is not None:
            with suppress(BlobRejected):  # the verdict shows that the grammar was compiled instead
                outcome = self._compiler.load(key, known.blob, parameters, known)
        outcome = outcome or self._compiler.compile(key, name, parameters, known)
        if outcome.grammar is None:
            return outcome.verdict, None
        _ = outcome.grammar.fixed_prefix  # computed here, outside the step loop, and cached
        measured_before = {each: getattr(known, each) for each in MEASUREMENTS}
        verdict = outcome.verdict.model_copy(update=measured_before)
        measured = MeasuredGrammar(
            outcome.grammar,
            verdict.least_tokens,
            name,
            verdict.extra_tokens or 0,
            limits_of(json.loads(parameters)),
        )
        self.on_load(measured)
        return verdict, measured


# --- methods added to vLLM's processes ---


def host_methods(
    store_of: Callable[[Any], GrammarStore], count_sequences: Callable[[Any], int]
) -> dict[str, Callable[..., Any]]:
    """Return the methods of a class of vLLM's, by name. All arguments are positional, and plain
    values, because vLLM's RPC transfers no others. `store_of` returns the store of an object of the
    class, `count_sequences` its number of running sequences."""

    def load(host: Any, owner: str, sources: dict[str, str]) -> None:
        store_of(host).load(owner, sources)

    def verdicts(host: Any, keys: list[str]) -> list[str]:
        return [verdict.model_dump_json() for verdict in store_of(host).verdicts(keys)]

    def release(host: Any, owner: str, keys: list[str]) -> None:
        store_of(host).release(owner, keys)

    def report(host: Any) -> dict[str, int]:
        """Numbers for tests and status pages, and an opaque one for this process."""
        grammars, sequences = len(store_of(host)), count_sequences(host)
        return {"grammars": grammars, "sequences": sequences, "process": _process_number()}

    return {
        "toolgate_load": load,
        "toolgate_verdicts": verdicts,
        "toolgate_release": release,
        "toolgate_report": report,
    }


@cache
def _process_number() -> int:
    """Made at the first report: processes that are forks of one have different ones."""
    return secrets.randbits(62)


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


WORKER_METHODS = host_methods(lambda _worker: installed_store(), lambda _worker: _sequences)
