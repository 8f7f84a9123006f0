"""Compiled grammars of one engine process, by key.

A worker holds one store. Loading returns at once: blobs and compiles run in a small pool, off the
step loop, and whoever asked polls for the verdict. What is held is decided by the API processes
(registry.py), which name themselves as holders: a grammar leaves when its last holder releases it.
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

from toolgate_core.errors import SchemaTooComplex
from toolgate_core.wire import GrammarVerdict, ResidualKeyword

from ..enforcement.spec import Spec
from ..errors import BlobRejected, GrammarMissing
from ..vocabulary import Vocabulary
from .compiled_grammar import MeasuredGrammar
from .compiler import NICENESS, Compiler, Outcome, Rewritten

COMPILER_CACHE_BYTES = 512 * 1024 * 1024
STACK_BYTES = 32 * 2**20
"""Of a thread that compiles; reserved, not taken."""
FORMAT = 3
"""Version of what we compile: raise it when the envelope, the options or `choose` change."""


def grammar_format() -> str:
    """The version part of grammar keys: ours and both engines'."""
    from importlib.metadata import version

    return f"{FORMAT}-xg{version('xgrammar')}-ll{version('llguidance')}"


@dataclass
class _Entry:
    holders: set[str] = field(default_factory=set)
    verdict: GrammarVerdict | None = None
    compiled: MeasuredGrammar | None = None


class GrammarStore:
    def __init__(self, vocabulary: Vocabulary, *, threads: int = 2) -> None:
        self._compiler = Compiler.of(vocabulary, cache_bytes=COMPILER_CACHE_BYTES)
        self._entries: dict[str, _Entry] = {}
        self._lock = Lock()
        self._pool = _roomy_pool(threads)
        self.primed = self._pool.submit(self._compiler.prime)
        """Done when what nearly all tools share is compiled."""

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, holder: str, sources: Mapping[str, str]) -> None:
        """Begin to load what is not there yet, by key. Each source is the JSON of `{name,
        parameters, blob, rewritten, residual, least_tokens, growth}`, `parameters` and `rewritten`
        being JSON text again. Returns at once: the text is parsed in the pool too. What was too
        much for this process once is tried again."""
        for key, source in sources.items():
            with self._lock:
                known = key in self._entries
                entry = self._entries.setdefault(key, _Entry())
                entry.holders.add(holder)
                again = entry.verdict is not None and entry.verdict.code == SchemaTooComplex.code
                if again:
                    entry.verdict = None
            if again or not known:
                self._pool.submit(self._load, key, source)

    def verdicts(self, keys: Iterable[str]) -> list[GrammarVerdict]:
        """The verdicts that have been reached among `keys`."""
        entries = (self._entries.get(key) for key in keys)
        return [entry.verdict for entry in entries if entry is not None and entry.verdict]

    def release(self, holder: str, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                entry = self._entries.get(key)
                if entry is not None:
                    entry.holders.discard(holder)
                    if not entry.holders:
                        del self._entries[key]

    def get(self, key: str) -> MeasuredGrammar:
        entry = self._entries.get(key)
        if entry is None or entry.compiled is None:
            raise GrammarMissing(f"no grammar {key} in process {os.getpid()}")
        return entry.compiled

    def of(self, held: Spec) -> tuple[list[MeasuredGrammar], MeasuredGrammar | None]:
        """A sequence's grammars: its candidates', and its content's. Raises GrammarMissing."""
        content = None if held.content is None else self.get(held.content)
        return [self.get(key) for key in held.keys], content

    def _load(self, key: str, source: str) -> None:
        compiled: MeasuredGrammar | None = None
        try:
            verdict, compiled = self._made(key, **json.loads(source))
        except BaseException as error:  # noqa: BLE001 - without a verdict, who polls would never end
            verdict = GrammarVerdict(
                key=key,
                status="refused",
                reason=f"the engine could not load it ({type(error).__name__})",
                code=SchemaTooComplex.code,
            )
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                entry.compiled, entry.verdict = compiled, verdict

    def _made(
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
        # What comes here has been through the quarantine: nothing has to be made of it any more.
        made = Rewritten(rewritten or parameters, keywords)
        outcome: Outcome | None = None
        if blob is not None:
            with suppress(BlobRejected):  # the verdict says that it was compiled instead
                outcome = self._compiler.load(key, blob, parameters, made)
        outcome = outcome or self._compiler.compile(key, name, parameters, made)
        if outcome.grammar is None:
            return outcome.verdict, None
        _ = outcome.grammar.head  # read here first, off the step loop
        figures = {"least_tokens": least_tokens, "growth": growth}
        verdict = outcome.verdict.model_copy(update=figures)
        return verdict, MeasuredGrammar(outcome.grammar, least_tokens, growth or 0)


def _give_way() -> None:
    """Adds to the engine's own niceness, which this thread has inherited."""
    with suppress(OSError):  # Linux alone lets a thread of its own be nice
        niceness = min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def _roomy_pool(threads: int) -> ThreadPoolExecutor:
    """Threads whose stacks are larger than the quarantine's: what native code recursed through
    there, it gets through here. A thread's own stack may be 2 MB, where the process's has no bound.
    """
    before = threading.stack_size(STACK_BYTES)
    try:
        pool = ThreadPoolExecutor(
            threads, thread_name_prefix="toolgate-compile", initializer=_give_way
        )
        all_there = Barrier(threads)
        for _ in range(threads):  # each job starts a thread, while those before it wait
            pool.submit(all_there.wait)
    finally:
        threading.stack_size(before)
    return pool


# --- as methods of vLLM's workers -----------------------------------------------------------------

_installed: GrammarStore | None = None
_sequences = 0


def install(store: GrammarStore) -> None:
    """Make `store` the one that this process's worker methods speak to."""
    global _installed
    _installed = store


def installed() -> GrammarStore:
    if _installed is None:
        raise GrammarMissing("this worker runs without Toolgate's logits processor")
    return _installed


def report_sequences(count: int) -> None:
    """How many automata the adapter holds now."""
    global _sequences
    _sequences = count


def worker_load(_worker: object, holder: str, sources: dict[str, str]) -> None:
    """Strings, as vLLM's RPC carries plain values; parsed in the pool, off the step loop."""
    installed().load(holder, sources)


def worker_verdicts(_worker: object, keys: list[str]) -> list[str]:
    return [verdict.model_dump_json() for verdict in installed().verdicts(keys)]


def worker_release(_worker: object, holder: str, keys: list[str]) -> None:
    installed().release(holder, keys)


def worker_report(_worker: object) -> dict[str, int]:
    """Figures for tests and status pages."""
    return {"grammars": len(installed()), "sequences": _sequences}


WORKER_METHODS = {
    "toolgate_load": worker_load,
    "toolgate_verdicts": worker_verdicts,
    "toolgate_release": worker_release,
    "toolgate_report": worker_report,
}
