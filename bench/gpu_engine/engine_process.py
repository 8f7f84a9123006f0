"""A process with one of vLLM's engines, which measures blocks of requests on demand."""

from __future__ import annotations

import gc
import json
import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from bench.engine_steps.blocks import Block, Text
from toolgate_backend import launch

from . import rehearsal
from .engines import DEFAULT, BlockOfRequests, EngineSetup

ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_PLUGINS": "",  # the plug-in is registered here
    "HF_HUB_OFFLINE": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # it compiles its kernels at the first use
}
MAX_LENGTH = 4096
CACHED_TOKENS = 256
"""Of the KV cache, for each stream: the prompts share most of their tokens. Responses are shorter
than this, and when many run, most are not complete."""
PROFILED_STEPS = 3
"""Blocks' length of a profiled block."""
FREE_MEMORY = 0.2
"""Share of the GPU's memory that has to be free when an engine starts. It may take more."""
PROCESSOR_METHODS = {False: ("update_state",), True: ("add_request", "apply_staged_writes")}
"""By whether the model runner is V2. Beside `apply`."""
READY = "ready"
Responses = Mapping[Text, Sequence[Sequence[int]]]


@dataclass(frozen=True)
class EngineOptions:
    model: str
    flags: Sequence[str]
    """vLLM's."""
    streams: int
    """The largest number."""
    steps: int
    """Of a block."""
    rehearsal: bool = False
    """Small layers on a CPU, and no packages but those that `bench gpu-engine-bare` has."""


def run(setup: EngineSetup, options: EngineOptions, channel: Connection) -> None:
    """Send `READY`. Receive `Responses`, and send a `Block` for each `BlockOfRequests` that is
    received, until the channel is closed. An error is sent as its traceback."""
    set_environment(setup)
    if options.rehearsal:
        rehearsal.prepare(setup)
    try:
        measured = MeasuredEngine(setup, options)
        channel.send(READY)
        measured.take(channel.recv())
        while True:
            channel.send(measured.block(channel.recv()))
    except EOFError:
        pass
    except BaseException:
        channel.send(traceback.format_exc())
        raise


def set_environment(setup: EngineSetup) -> None:
    os.environ.update(ENVIRONMENT | launch.cpu_environment(os.environ) | dict(setup.environment))


class MeasuredEngine:
    """One of vLLM's engines, in this process."""

    def __init__(self, setup: EngineSetup, options: EngineOptions) -> None:
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor.abstract import Executor

        from bench.engine_steps.clocks import CpuTimes

        self._setup, self._steps, self._times = setup, options.steps, CpuTimes()
        self._rehearsal = options.rehearsal
        self._config = _configuration(setup, options)
        self._core = EngineCore(self._config, Executor.get_class(self._config), log_stats=True)
        self._runner = self._core.model_executor.driver_worker.worker.model_runner
        if setup.processor:
            _watch_processors(self._runner, self._times)
        elif worker := getattr(self._runner, "structured_outputs_worker", None):
            if setup.name != DEFAULT:
                self._core.toolgate_report()  # makes the worker keep rows of masks
            self._times.watch(worker, "apply_grammar_bitmask", "worker")

    def take(self, given: Responses, loop: Any = None) -> None:
        """Write these responses from now on. `loop`: a subclass of `Engine`."""
        from bench.engine_steps.channel import ThreadedChannel
        from bench.engine_steps.load import Load
        from bench.engine_steps.measurement import Engine
        from bench.engine_steps.tools import bench_tools
        from toolgate_backend.tokens.vocabulary import from_model_config

        from .scripted_logits import ScriptedLogits

        model = ScriptedLogits(
            self._runner, [each for some in given.values() for each in some], MAX_LENGTH
        )
        channel = ThreadedChannel(self._core)
        self._engine = (loop or Engine)(self._core, model, channel, self._times)
        ends, first = from_model_config(self._config.model_config).marks.end_of_turn, 0
        self._loads: dict[Text, Load] = {}
        for text, responses in given.items():
            tools = bench_tools(text)
            self._load_grammars(tools)
            self._loads[text] = Load(tools, responses, ends, first)
            first += len(responses)
        gc.collect()
        gc.freeze()

    def _load_grammars(self, tools: Any) -> None:
        from bench.engine_steps.tools import load_grammars
        from toolgate_backend.grammars.store import WORKER_METHODS

        if self._setup.processor:
            load, verdicts = (
                partial(WORKER_METHODS[f"toolgate_{name}"], None) for name in ("load", "verdicts")
            )
            load_grammars(load, verdicts, tools)
        elif self._setup.name != DEFAULT:
            load_grammars(self._core.toolgate_load, self._core.toolgate_verdicts, tools)

    def block(self, wanted: BlockOfRequests) -> Block:
        # A step of a rehearsal takes seconds, and its figures mean nothing.
        long = not self._rehearsal
        steps = self._steps * (PROFILED_STEPS if wanted.profiled and long else 1)
        load, settle = self._loads[wanted.text], wanted.round > 0 and long
        return self._engine.block(load, wanted.kind, wanted.streams, steps, settle=settle)


def _configuration(setup: EngineSetup, options: EngineOptions) -> Any:
    """The VllmConfig."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    from toolgate_backend.adapters import draft_config, vllm_host
    from toolgate_backend.adapters.probe import patch_version_lookup

    patch_version_lookup()
    if setup.name != DEFAULT:
        vllm_host.register()
    flags = ["--model", options.model, "--load-format", "dummy"]
    flags += ["--max-model-len", str(MAX_LENGTH), "--max-num-seqs", str(options.streams)]
    if options.rehearsal:
        flags += ["--hf-overrides", json.dumps(rehearsal.SHAPES)]
    if launch.on_cpu():
        flags += launch.cpu_flags(options.model, ["--max-model-len", str(MAX_LENGTH)])
    else:
        flags += ["--gpu-memory-utilization", str(FREE_MEMORY)]
    if setup.processor:
        flags += ["--logits-processors", launch.PROCESSOR]
    if setup.drafts:
        flags += draft_config.flags(setup.drafts)
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    parsed = parser.parse_args(
        [*flags, *setup.flags, *options.flags, "--distributed-executor-backend", launch.UNIPROC]
    )
    config = EngineArgs.from_cli_args(parsed).create_engine_config()
    if launch.on_cpu():  # where vLLM has turned it off
        config.scheduler_config.async_scheduling = config.use_v2_model_runner
    if setup.name != DEFAULT:
        # Raises IncompatibleServer if vLLM lacks a name that a hook needs, which would be left out.
        vllm_host.detect_adapter(
            config, "logits_processor" if setup.processor else "structured_output"
        )
    # Other engines start on the same GPU, so vLLM cannot measure what is free for its cache.
    tokens = max(options.streams * CACHED_TOKENS, 2 * MAX_LENGTH)
    config.cache_config.kv_cache_memory_bytes = tokens * _bytes_per_token(config)
    return config


def _bytes_per_token(config: Any) -> int:
    """Of keys and values."""
    model, parallel = config.model_config, config.parallel_config
    values = model.get_num_layers(parallel) * model.get_num_kv_heads(parallel)
    return int(2 * values * model.get_head_size() * model.dtype.itemsize)


def _watch_processors(runner: Any, times: Any) -> None:
    from toolgate_backend.adapters.logits_processor import EnforcementLogitsProcessor

    is_v2 = hasattr(runner, "req_states")
    found = runner.sampler.logits_processors if is_v2 else runner.input_batch.logitsprocs.all
    for processor in found:
        if isinstance(processor, EnforcementLogitsProcessor):
            for method in (*PROCESSOR_METHODS[is_v2], "apply"):
                times.watch(processor, method, "worker")
