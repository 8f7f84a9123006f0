"""How Toolgate hooks into vLLM's engine, and which adapter a server needs.

vLLM has no registry of grammar back ends, so `StructuredOutputManager._create_grammar` is replaced.
So is `validate_tokens`, which gets each draft before it is scheduled: where drafts come from text
(ngram, suffix), forced text is proposed instead. Grammars reach the scheduler's process by methods
set on `EngineCore`. touches.py lists the names of vLLM's that this uses.
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

from ..enforcement import spec
from ..errors import AdapterMisfit
from ..grammars.worker_rpc import Rpc
from . import probe
from .structured_output import EnforcementGrammar, Sequences
from .touches import CALL_IDS, STRUCTURED_OUTPUT

AdapterName = Literal["logits_processor", "structured_output"]

UNHOOKED = "toolgate: this engine runs without the plug-in"
"""What a hooked request asks vLLM itself for. No server starts without the hook; were it missing
all the same, the answer would be this sentence, never an unmasked one."""


def register() -> None:
    """In every process of a server, more than once."""
    if hasattr(EngineCore, "toolgate_report") or any(probe.problems_of(STRUCTURED_OUTPUT)):
        return
    manager = StructuredOutputManager
    manager._create_grammar = _creating(manager._create_grammar)
    manager.validate_tokens = _drafting(manager.validate_tokens)
    for name, method in ENGINE_METHODS.items():
        setattr(EngineCore, name, method)


def adapter_of(config: Any, wanted: str) -> AdapterName:
    """The adapter that a server with this VllmConfig enforces by.

    Raises AdapterMisfit for a server that would drop the masks, or is not the one `wanted`.
    """
    processors = config.model_config.logits_processors or ()
    ours = any("EnforcementLogitsProcessor" in str(processor) for processor in processors)
    found: AdapterName = "logits_processor" if ours else "structured_output"
    if wanted not in ("auto", found):
        raise AdapterMisfit(
            f"TOOLGATE_ADAPTER={wanted}, but this server's flags make the adapter {found}: start "
            "it by `toolgate backend`, which sets the flags that an adapter needs."
        )
    if ours and (config.speculative_config is not None or config.use_v2_model_runner):
        raise AdapterMisfit(
            "vLLM runs no V1 logits processors beside speculative decoding or on the V2 model "
            "runner, so nothing would be enforced: set TOOLGATE_ADAPTER=structured_output."
        )
    if not ours:
        probe.check_structured_output()
    return found


def rpc_of(engine_client: Any, adapter: AdapterName) -> Rpc:
    """To the processes in which the adapter runs: one answer a rank, or one an engine."""
    if adapter == "logits_processor":
        workers: Rpc = engine_client.collective_rpc
        return workers

    core = engine_client.engine_core
    call_all = getattr(core, "call_utility_all_async", None) or functools.partial(_call_all, core)

    async def engines(method: str, args: tuple[Any, ...] = ()) -> Sequence[Any]:
        answers: Sequence[Any] = await call_all(method, *args)
        return answers

    return engines


async def _call_all(core: Any, method: str, *args: Any) -> Sequence[Any]:
    """As `call_utility_all_async` does, which vLLM 0.31 lacks."""
    calls = [core._call_utility_async(method, *args, engine=each) for each in core.core_engines]
    return await asyncio.gather(*calls)


def call_ids(model_config: Any) -> str:
    """The kind of ids that the model's template needs for tool calls."""
    kind: str = probe.found(CALL_IDS)(model_config)
    return kind


def hooked_params() -> StructuredOutputsParams:
    """Switches vLLM's machinery for grammars on for a request whose `extra_args` hold our spec."""
    return StructuredOutputsParams(choice=[UNHOOKED])


def _creating(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(original)
    def create(self: Any, request: Any) -> Any:
        params = request.sampling_params
        held = spec.from_extra_args(params.extra_args) if params is not None else None
        if held is None:
            return original(self, request)
        return _sequences(self.vllm_config).begin(held)

    return create


def _drafting(original: Callable[[Any, Any, list[int]], list[int]]) -> Any:
    """Forced text goes out as drafts. Not under async scheduling, where the worker has its drafts
    already and the scheduler can only strike some out; and not beside a draft model, whose
    probabilities the rejection sampler needs for each token that it did propose."""

    @functools.wraps(original)
    def validate(self: Any, request: Any, spec_tokens: list[int]) -> list[int]:
        held = request.structured_output_request
        grammar = held.grammar if held is not None else None
        if not isinstance(grammar, EnforcementGrammar) or not _drafts_are_ours(self.vllm_config):
            return original(self, request, spec_tokens)
        proposed = strip_speculative_padding(spec_tokens)
        return grammar.drafts(proposed, self.vllm_config.num_speculative_tokens)

    return validate


def _drafts_are_ours(config: Any) -> bool:
    from_text = config.speculative_config.method in ("ngram", "suffix")
    return from_text and not config.scheduler_config.async_scheduling


_held: Sequences | None = None
_making = Lock()


def _sequences(vllm_config: Any) -> Sequences:
    """This engine's, made when it is first asked for: at the start, by the API process's first
    call, so that no request waits for the vocabulary to be read."""
    global _held
    with _making:
        if _held is None:
            _held = Sequences(vllm_config.model_config)
        return _held


# --- as methods of vLLM's EngineCore: positional arguments, plain values --------------------------


def _load(engine: Any, holder: str, sources: dict[str, str]) -> None:
    _sequences(engine.vllm_config).store.load(holder, sources)


def _verdicts(engine: Any, keys: list[str]) -> list[str]:
    found = _sequences(engine.vllm_config).store.verdicts(keys)
    return [verdict.model_dump_json() for verdict in found]


def _release(engine: Any, holder: str, keys: list[str]) -> None:
    _sequences(engine.vllm_config).store.release(holder, keys)


def _report(engine: Any) -> dict[str, int]:
    sequences = _sequences(engine.vllm_config)
    return {"grammars": len(sequences.store), "sequences": len(sequences)}


ENGINE_METHODS = {
    "toolgate_load": _load,
    "toolgate_verdicts": _verdicts,
    "toolgate_release": _release,
    "toolgate_report": _report,
}
