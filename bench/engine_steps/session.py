"""All blocks of one number of streams with one kind of text, in a process of its own."""

from __future__ import annotations

import cProfile
import gc
import io
import pstats
from collections.abc import Sequence
from functools import partial

import torch

from toolgate_backend.enforcement import mask_time_budget
from toolgate_backend.grammars.store import WORKER_METHODS
from toolgate_backend.tokens.vocabulary import from_model_config

from .channel import DirectChannel, ThreadedChannel
from .cpu_times import CpuTimes
from .device import Device
from .engine import make_config, make_engine
from .load import Load
from .measurement import Engine
from .options import Kind, Options, Text
from .processor import HostProcessor
from .results import Block, Measured, Session
from .tools import bench_tools, load_grammars

PROFILED_FUNCTIONS = 40


def run_session(
    options: Options, text: Text, streams: int, responses: Sequence[Sequence[int]]
) -> Session:
    torch.set_num_threads(1)
    # Above this wall time, masks are not computed together. A busy machine would exceed the usual.
    mask_time_budget.MASK_SECONDS = 1.0
    config = make_config(options.model, streams)
    tools, times = bench_tools(), CpuTimes()
    processor = None
    if "logits_processor" in options.kinds:
        processor = HostProcessor(config, times)
        loading, verdicts = (
            partial(WORKER_METHODS[f"toolgate_{name}"], None) for name in ("load", "verdicts")
        )
        load_grammars(loading, verdicts, tools)
    core = make_engine(config, Device(options.work), times, processor)
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
    functions = ""
    if options.profiled is not None:
        with cProfile.Profile() as profile:
            block(options.profiled)
        functions = _functions(profile)
    return Session(streams, text, kinds, core.model_executor.checked, functions)


def _functions(profile: cProfile.Profile) -> str:
    """The functions that take most of the time, without that of the functions they call."""
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(PROFILED_FUNCTIONS)
    return text.getvalue()
