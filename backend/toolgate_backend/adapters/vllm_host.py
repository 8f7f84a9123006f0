"""Hooks into vLLM's engine and workers, and the choice of the adapter.

vLLM has no registry of grammar back ends, so `StructuredOutputManager._create_grammar` is replaced.
`validate_tokens` is replaced as well: vLLM calls it with each draft before the draft is scheduled,
and drafts made from text (ngram, suffix) are replaced by forced text. `grammar_bitmask` computes
the masks of a step together. Grammars are loaded through methods that are added to `WorkerBase` and
`EngineCore`. private_names.py lists the private names that this module uses.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Literal

from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.engine.core import EngineCore
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.structured_output.utils import strip_speculative_padding
from vllm.v1.worker.worker_base import WorkerBase

from toolgate_core.host_probe import find, find_problems

from ..enforcement import spec
from ..errors import IncompatibleServer
from ..grammars.store import WORKER_METHODS
from ..grammars.worker_rpc import Rpc
from . import probe
from .private_names import CALL_IDS, STRUCTURED_OUTPUT
from .structured_output import EnforcementGrammar, EngineSequences

AdapterName = Literal["logits_processor", "structured_output"]

NOT_HOOKED = "toolgate: this engine runs without the plug-in"
"""The constraint that a request carries for vLLM itself. No server starts without the hook. If the
hook were missing all the same, the response would be this sentence instead of unconstrained
text."""


def register() -> None:
    """Add the worker methods, and the engine hooks unless vLLM lacks a name that they need. Runs in
    every process of a server, more than once."""
    for name, method in WORKER_METHODS.items():
        setattr(WorkerBase, name, method)
    if hasattr(EngineCore, "toolgate_report") or any(find_problems(STRUCTURED_OUTPUT)):
        return
    manager = StructuredOutputManager
    manager._create_grammar = _hook_create_grammar(manager._create_grammar)
    manager.validate_tokens = _hook_validate_tokens(manager.validate_tokens)
    manager.grammar_bitmask = _hook_grammar_bitmask(manager.grammar_bitmask)
    for name, method in ENGINE_METHODS.items():
        setattr(EngineCore, name, method)


def detect_adapter(config: Any, wanted: str) -> AdapterName:
    """The adapter that a server with this VllmConfig uses.

    Raises IncompatibleServer if vLLM would drop the masks, or if the adapter is not `wanted`.
    """
    processors = config.model_config.logits_processors or ()
    ours = any("EnforcementLogitsProcessor" in str(processor) for processor in processors)
    detected: AdapterName = "logits_processor" if ours else "structured_output"
    if wanted not in ("auto", detected):
        raise IncompatibleServer(
            f"TOOLGATE_ADAPTER={wanted} does not match this server's flags, which select the "
            f"adapter {detected}. Start the server with `toolgate backend`, which sets the flags "
            "for the adapter."
        )
    if ours and (config.speculative_config is not None or config.use_v2_model_runner):
        raise IncompatibleServer(
            "vLLM runs no V1 logits processors with speculative decoding or on the V2 model "
            "runner, so nothing would be enforced. Set TOOLGATE_ADAPTER=structured_output."
        )
    if not ours:
        probe.check_structured_output()
    return detected


def make_rpc(engine_client: Any, adapter: AdapterName) -> Rpc:
    """A call to the processes in which the adapter runs; one result for each rank, or for each
    engine."""
    if adapter == "logits_processor":
        workers: Rpc = engine_client.collective_rpc
        return workers

    core = engine_client.engine_core
    call_all = getattr(core, "call_utility_all_async", None) or functools.partial(_call_all, core)

    async def engines(method: str, args: tuple[Any, ...] = ()) -> Sequence[Any]:
        results: Sequence[Any] = await call_all(method, *args)
        return results

    return engines


async def _call_all(core: Any, method: str, *args: Any) -> Sequence[Any]:
    """The equivalent of `call_utility_all_async` for vLLM 0.31, which lacks it."""
    calls = [core._call_utility_async(method, *args, engine=each) for each in core.core_engines]
    return await asyncio.gather(*calls)


def call_ids(model_config: Any) -> str:
    """The kind of tool-call ids that the model's chat template needs."""
    kind: str = find(CALL_IDS)(model_config)
    return kind


def structured_outputs_params() -> StructuredOutputsParams:
    """Parameters that make vLLM build a grammar for a request that has our spec in `extra_args`."""
    return StructuredOutputsParams(choice=[NOT_HOOKED])


def _hook_create_grammar(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(original)
    def create(self: Any, request: Any) -> Any:
        params = request.sampling_params
        constraints = spec.from_extra_args(params.extra_args, params.seed) if params else None
        if constraints is None:
            return original(self, request)
        return _engine_sequences(self.vllm_config).create_grammar(constraints)

    return create


def _hook_validate_tokens(original: Callable[[Any, Any, list[int]], list[int]]) -> Any:
    """Propose forced text as drafts.

    Not under async scheduling: there the worker already has its drafts, and the scheduler can only
    remove some. Not with a draft model: there the rejection sampler needs the draft model's
    probabilities for each proposed token.
    """

    @functools.wraps(original)
    def validate(self: Any, request: Any, spec_tokens: list[int]) -> list[int]:
        structured = request.structured_output_request
        grammar = structured.grammar if structured is not None else None
        if not isinstance(grammar, EnforcementGrammar) or not _may_replace_drafts(self.vllm_config):
            return original(self, request, spec_tokens)
        proposed = strip_speculative_padding(spec_tokens)
        return grammar.drafts(proposed, self.vllm_config.num_speculative_tokens)

    return validate


def _hook_grammar_bitmask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Compute the masks of a step together, before vLLM requests each one. Not with drafts, for
    which the grammars have to advance between two masks."""

    @functools.wraps(original)
    def grammar_bitmask(
        self: Any,
        requests: Any,
        structured_output_request_ids: list[str],
        scheduled_spec_decode_tokens: dict[str, list[int]],
    ) -> Any:
        ids, drafts = structured_output_request_ids, scheduled_spec_decode_tokens
        bitmask = self._grammar_bitmask  # None before vLLM's first step with a grammar
        if bitmask is not None and not drafts:
            grammars = [requests[each].structured_output_request.grammar for each in ids]
            rows = [(row, g) for row, g in enumerate(grammars) if isinstance(g, EnforcementGrammar)]
            if len(rows) == len(ids):  # vLLM's threads would wait for Python's lock
                self.fill_bitmask_parallel_threshold = max(
                    self.fill_bitmask_parallel_threshold, len(ids)
                )
            if rows:
                _engine_sequences(self.vllm_config).fill_together(bitmask, rows)
        return original(self, requests, ids, drafts)

    return grammar_bitmask


def _may_replace_drafts(config: Any) -> bool:
    from_text = config.speculative_config.method in ("ngram", "suffix")
    return from_text and not config.scheduler_config.async_scheduling


_sequences: EngineSequences | None = None
_sequences_lock = Lock()


def _engine_sequences(vllm_config: Any) -> EngineSequences:
    """The sequences of this engine process. Created by the API process's first call at start-up, so
    that no request waits until the vocabulary is read."""
    global _sequences
    with _sequences_lock:
        if _sequences is None:
            _sequences = EngineSequences(vllm_config.model_config)
        return _sequences


# --- methods added to vLLM's EngineCore: positional arguments, plain values ---


def _load(engine: Any, owner: str, sources: dict[str, str]) -> None:
    _engine_sequences(engine.vllm_config).store.load(owner, sources)


def _verdicts(engine: Any, keys: list[str]) -> list[str]:
    verdicts = _engine_sequences(engine.vllm_config).store.verdicts(keys)
    return [verdict.model_dump_json() for verdict in verdicts]


def _release(engine: Any, owner: str, keys: list[str]) -> None:
    _engine_sequences(engine.vllm_config).store.release(owner, keys)


def _report(engine: Any) -> dict[str, int]:
    sequences = _engine_sequences(engine.vllm_config)
    return {"grammars": len(sequences.store), "sequences": len(sequences)}


ENGINE_METHODS = {
    "toolgate_load": _load,
    "toolgate_verdicts": _verdicts,
    "toolgate_release": _release,
    "toolgate_report": _report,
}
