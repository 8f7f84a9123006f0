"""Traces: how each token of a response was constrained, for requests that ask for it.

The automata of the engine report nothing, so that they cost nothing more. The API process runs the
response through an automaton of its own, with the same grammars and the same constraints, which
decides the same. Nothing is created before the first request for a trace.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from vllm.logger import init_logger

from toolgate_core.errors import BackendUnavailable
from toolgate_core.wire import GrammarSource, TokenKind, TokenTrace, TraceEvent, TracePhase

from ..enforcement.automaton import Automaton
from ..enforcement.model_data import ModelData
from ..enforcement.spec import Spec
from ..enforcement.state import Phase, State
from ..enforcement.token_limits import FREE
from ..enforcement.turn_graph import TurnGraphs
from ..errors import BackendError
from ..grammars.store import GrammarStore
from ..grammars.worker_rpc import source_text
from ..tokens.vocabulary import Vocabulary

logger = init_logger(__name__)

MAX_TRACES = 4
"""Maximum number of responses that are traced at the same time."""
LOAD_SECONDS = 30.0
POLL_SECONDS = 0.005
PHASES: dict[Phase, TracePhase] = {
    Phase.THINKING: "thinking",
    Phase.CONTENT: "content",
    Phase.FORMAT: "format",
    Phase.TOOL_CALL: "tool_call",
    Phase.SELECT: "select",
    Phase.END: "end",
}


class Tracer:
    """The grammars of traced requests in the API process."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._loaded: tuple[TurnGraphs, GrammarStore] | None = None
        self._lock = asyncio.Lock()
        self._active = 0

    @asynccontextmanager
    async def trace(self, spec: Spec, sources: Sequence[GrammarSource]) -> AsyncIterator[Trace]:
        """`sources`: those of all grammars in `spec`, as the workers loaded them. Raise
        BackendUnavailable."""
        if self._active >= MAX_TRACES:
            raise BackendUnavailable(
                f"{MAX_TRACES} responses are already traced. Send the request again, or ask for no "
                "trace.",
                retry_after=1,
            )
        self._active += 1
        owner = uuid.uuid4().hex
        try:
            model, store = await self._parts()
            keys = [source.key for source in sources]
            store.load(owner, {source.key: source_text(source) for source in sources})
            try:
                await _loaded(store, keys)
                yield Trace(self._vocabulary, model, store, spec)
            finally:
                store.release(owner, keys)
        finally:
            self._active -= 1

    async def _parts(self) -> tuple[TurnGraphs, GrammarStore]:
        async with self._lock:
            if self._loaded is None:
                self._loaded = await asyncio.to_thread(self._make)
        return self._loaded

    def _make(self) -> tuple[TurnGraphs, GrammarStore]:
        turns = TurnGraphs(ModelData(self._vocabulary))
        store = GrammarStore(self._vocabulary)
        store.on_release = turns.forget
        return turns, store


class Trace:
    """The trace of one response."""

    def __init__(
        self, vocabulary: Vocabulary, turns: TurnGraphs, store: GrammarStore, spec: Spec
    ) -> None:
        self._vocabulary = vocabulary
        self._turns = turns
        self._store = store
        self._spec = spec
        self._automata: dict[int, Automaton | None] = {}
        """By choice; None once the choice left its automaton: the engine ended it with an error."""

    async def event(self, choice: int, ids: Sequence[int]) -> TraceEvent:
        """Return the traces of the next tokens of a choice. The masks are computed in a thread."""
        return await asyncio.to_thread(self._event, choice, ids)

    def _event(self, choice: int, ids: Sequence[int]) -> TraceEvent:
        if choice not in self._automata:
            spec = replace(self._spec, choice_number=self._spec.choice_number + choice)
            grammars = spec.grammars_in(self._store)
            self._automata[choice] = Automaton(self._turns, spec, *grammars)
        automaton, traces = self._automata[choice], list[TokenTrace]()
        for token in ids:
            if automaton is None or automaton.is_terminated():
                break
            at = len(automaton.tokens)
            try:
                state, allowed = automaton.state, automaton.next_row().count
                if not automaton.accept(token):
                    raise BackendError(f"the automaton of the trace refuses token {at}")
            except Exception as error:  # noqa: BLE001 - a trace must not end the response
                logger.warning("Toolgate: a trace ends early: %s", error)
                self._automata[choice] = None
                break
            traces.append(
                TokenTrace(
                    at=at,
                    id=token,
                    text=self._vocabulary.token_bytes[token].decode(errors="replace"),
                    phase=PHASES[state.phase],
                    kind=_kind(state, allowed, self._vocabulary),
                    allowed=allowed,
                )
            )
        return TraceEvent(choice=choice, tokens=tuple(traces))


def _kind(state: State, allowed: int, vocabulary: Vocabulary) -> TokenKind:
    if allowed == 1:
        return "forced"
    is_text = state.phase in FREE and state.candidates is None and 2 * allowed > vocabulary.size
    return "free" if is_text else "masked"


async def _loaded(store: GrammarStore, keys: Sequence[str]) -> None:
    """Wait until the store has all grammars. Raise BackendUnavailable."""
    deadline = time.monotonic() + LOAD_SECONDS
    while len(verdicts := store.verdicts(keys)) < len(keys):
        if time.monotonic() > deadline:
            raise BackendUnavailable("The grammars of the trace took too long to load.")
        await asyncio.sleep(POLL_SECONDS)
    refused = next((each.reason for each in verdicts if each.status == "refused"), None)
    if refused is not None:
        raise BackendUnavailable(f"A grammar of the trace could not be loaded: {refused}.")
