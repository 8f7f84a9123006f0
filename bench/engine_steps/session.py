"""All blocks of one number of streams with one kind of text, in a process of its own, with the
engine loop, the scheduler and the structured-output manager of vLLM."""

from __future__ import annotations

import cProfile
import gc
import io
import json
import os
import pstats
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.engine.core import EngineCore

from toolgate_backend.adapters import draft_config, vllm_host
from toolgate_backend.adapters.engine_sequences import engine_sequences
from toolgate_backend.adapters.probe import patch_version_lookup
from toolgate_backend.adapters.row_numbers import RowNumbers, slots_of
from toolgate_backend.grammars.store import WORKER_METHODS
from toolgate_backend.tokens.vocabulary import from_model_config

from .blocks import Block, Kind, Measured, Options, Session, Text
from .channel import DirectChannel, ThreadedChannel
from .clocks import CpuTimes, Device
from .executor import BLOCK_SIZE, FakeExecutor
from .host_worker import CopiedBytes, HostProcessor
from .load import Load
from .measurement import Engine
from .tools import bench_tools, load_grammars

MAX_LENGTH = 4096
BATCHED_TOKENS = 8192
PROFILED_FUNCTIONS = 40


def make_config(model: str, streams: int, drafts: int) -> Any:
    """The VllmConfig of an engine on a GPU as far as the scheduler is concerned."""
    if drafts:
        os.environ["TOOLGATE_FORCED_DRAFTS"] = str(drafts)
    patch_version_lookup()
    vllm_host.register()
    arguments = EngineArgs(
        model=model,
        dtype="float32",
        max_model_len=MAX_LENGTH,
        max_num_seqs=streams,
        max_num_batched_tokens=BATCHED_TOKENS,
        enforce_eager=True,
        load_format="dummy",
        distributed_executor_backend="uni",
        speculative_config=json.loads(draft_config.flags(drafts)[1]) if drafts else None,
    )
    config = arguments.create_engine_config()
    # On the CPU platform, vLLM sets these to other values.
    config.scheduler_config.async_scheduling = True
    config.cache_config.block_size = BLOCK_SIZE
    return config


def make_engine(
    config: Any, device: Device, times: CpuTimes, processor: HostProcessor | None
) -> EngineCore:
    executor = partial(FakeExecutor, device=device, times=times, processor=processor)
    engine = EngineCore(config, executor, log_stats=True)
    if engine.batch_queue is None:
        raise RuntimeError("vLLM's engine has no batch queue, so it does not schedule ahead")
    return engine


def run_session(
    options: Options, text: Text, streams: int, responses: Sequence[Sequence[int]]
) -> Session:
    torch.set_num_threads(1)
    config = make_config(options.model, streams, options.drafts)
    tools, times = bench_tools(text), CpuTimes()
    processor = None
    if "logits_processor" in options.kinds:
        processor = HostProcessor(config, times)
        loading, verdicts = (
            partial(WORKER_METHODS[f"toolgate_{name}"], None) for name in ("load", "verdicts")
        )
        load_grammars(loading, verdicts, tools)
    core = make_engine(config, Device(options.work), times, processor)
    # As if vLLM's own executor had asked the worker.
    sequences = engine_sequences(config)
    sequences.asked_workers, sequences.step_masks.numbers = True, RowNumbers(slots_of(config))
    load_grammars(core.toolgate_load, core.toolgate_verdicts, tools)
    load = Load(tools, responses, from_model_config(config.model_config).marks.end_of_turn)
    channel = ThreadedChannel(core) if options.threads else DirectChannel(core)
    engine = Engine(core, core.model_executor, channel, times)
    gc.collect()
    gc.freeze()

    def block(kind: Kind, *, settle: bool = True) -> Block:
        return engine.block(load, kind, streams, options.steps, settle=settle)

    block("free", settle=False)  # first uses in vLLM itself
    kinds = {kind: Measured(block(kind, settle=False)) for kind in options.kinds}
    for _ in range(options.rounds):
        for kind, measured in kinds.items():
            measured.warm.append(block(kind))
    for kind, measured in kinds.items():
        with CopiedBytes(times):
            measured.copied = block(kind).copied
    functions = ""
    if options.profiled is not None:
        with cProfile.Profile() as profile:
            block(options.profiled)
        functions = _functions(profile)
    checked, version = core.model_executor.checked, vllm_host.version()
    return Session(streams, text, kinds, checked, functions, version)


def _functions(profile: cProfile.Profile) -> str:
    """The functions that take most of the time, without that of the functions they call."""
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(PROFILED_FUNCTIONS)
    return text.getvalue()
