"""Compiled grammars of one engine process, by key.

A worker holds one store. Loading returns at once: compiles run in a small pool, off the step loop,
and whoever asked polls for the verdict. What is held is decided by the API processes (registry.py),
which name themselves as holders: a grammar leaves when its last holder releases it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from toolgate_core.wire import GrammarSource, GrammarVerdict

from ..errors import GrammarMissing, GrammarRefused
from ..vocabulary import Vocabulary
from .choose import choose
from .engine import CompiledGrammar, Engine
from .llguidance_engine import LLGuidanceEngine
from .xgrammar_engine import XGrammarEngine

COMPILER_CACHE_BYTES = 512 * 1024 * 1024
FORMAT = 1
"""Version of what we compile: raise it when the envelope, the options or `choose` change."""


def grammar_format() -> str:
    """The version part of grammar keys: ours and both engines'."""
    from importlib.metadata import version

    return f"{FORMAT}-xg{version('xgrammar')}-ll{version('llguidance')}"


@dataclass
class _Entry:
    holders: set[str] = field(default_factory=set)
    verdict: GrammarVerdict | None = None
    compiled: CompiledGrammar | None = None


class GrammarStore:
    def __init__(self, vocabulary: Vocabulary, *, threads: int = 2) -> None:
        self._dialect = vocabulary.dialect
        self._engines: dict[str, Engine] = {
            "xgrammar": XGrammarEngine(vocabulary.info, cache_bytes=COMPILER_CACHE_BYTES),
            "llguidance": LLGuidanceEngine(vocabulary.tokenizer, vocabulary_size=vocabulary.size),
        }
        self._entries: dict[str, _Entry] = {}
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="toolgate-compile")

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, holder: str, sources: Sequence[GrammarSource]) -> None:
        """Begin to compile what is not there yet. Returns at once."""
        for source in sources:
            with self._lock:
                known = source.key in self._entries
                self._entries.setdefault(source.key, _Entry()).holders.add(holder)
            if not known:
                self._pool.submit(self._compile, source)

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

    def get(self, key: str) -> CompiledGrammar:
        entry = self._entries.get(key)
        if entry is None or entry.compiled is None:
            raise GrammarMissing(f"no grammar {key} in process {os.getpid()}")
        return entry.compiled

    def _compile(self, source: GrammarSource) -> None:
        began = time.perf_counter()
        verdict, compiled = self._try(source)
        verdict["compile_ms"] = (time.perf_counter() - began) * 1e3
        with self._lock:
            entry = self._entries.get(source.key)
            if entry is not None:
                entry.compiled = compiled
                entry.verdict = GrammarVerdict.model_validate({"key": source.key, **verdict})

    def _try(self, source: GrammarSource) -> tuple[dict[str, Any], CompiledGrammar | None]:
        """The fields of the verdict, and the grammar when it is `ready`."""
        refusal: dict[str, Any] = {"status": "refused"}
        try:
            choice = choose(source.parameters)
            refusal["engine"] = choice.engine
            engine = self._engines[choice.engine]
            compiled = engine.compile(self._dialect, source.name, source.parameters)
        except GrammarRefused as refused:
            return refusal | {"reason": refused.reason, "pointer": refused.pointer}, None
        except Exception as error:  # noqa: BLE001 - whatever a schema breaks, who asked gets a verdict
            reason = f"not a valid JSON Schema ({type(error).__name__}: {error})"
            return refusal | {"reason": reason[:300], "pointer": ""}, None
        return {"status": "ready", "engine": choice.engine, "reason": choice.reason}, compiled


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


def worker_load(_worker: object, holder: str, sources: str) -> None:
    """`sources` is a JSON array of GrammarSource: vLLM's RPC carries plain values."""
    parsed = [GrammarSource.model_validate(source) for source in json.loads(sources)]
    installed().load(holder, parsed)


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
