"""All blocks of one number of streams with one kind of text, in a process of its own."""

from __future__ import annotations

import cProfile
import gc
import io
import pstats
import random
from contextlib import nullcontext

import torch

from toolgate_backend.tokens.vocabulary import from_model_config

from .channel import DirectChannel
from .cpu_times import CpuTimes
from .device import Device
from .engine import make_config, make_engine
from .load import Load, bench_tools, load_grammars
from .measurement import RAMP_STEPS, SETTLING_STEPS, Engine
from .natural import natural_call
from .options import Kind, Options, Text
from .results import Block, Measured, Session

MOST_TEXTS = 2000
"""Number of different responses above which they are used again."""
PROFILED_FUNCTIONS = 40


def run_session(options: Options, text: Text, streams: int) -> Session:
    torch.set_num_threads(1)
    config = make_config(options.model, streams)
    device = Device(options.times)
    core = make_engine(config, device, options.displaced_bytes)
    tools = bench_tools()
    load_grammars(core.toolgate_load, core.toolgate_verdicts, tools)
    vocabulary = from_model_config(config.model_config)
    rng = random.Random(1)
    wanted = _texts_needed(options, streams)
    responses = [natural_call(vocabulary, tools.tools, rng) for _ in range(wanted)]
    load = Load(tools, responses, vocabulary.marks.end_of_turn)
    engine = Engine(core, load, DirectChannel(core), CpuTimes())
    gc.collect()
    gc.freeze()

    def block(kind: Kind, *, settle: bool) -> Block:
        return engine.block(kind, streams, options.steps, settle=settle)

    block("free", settle=False)  # first uses in vLLM itself
    kinds = {kind: Measured(block(kind, settle=False)) for kind in options.kinds}
    profile = cProfile.Profile()
    for _ in range(options.rounds):
        for kind in options.kinds:
            with profile if kind == options.profiled else nullcontext():
                kinds[kind].warm.append(block(kind, settle=True))
    functions = _functions(profile) if options.profiled else ""
    return Session(streams, text, kinds, core.model_executor.checked, functions)


def _texts_needed(options: Options, streams: int) -> int:
    """About as many as a kind gets requests, if responses have 80 tokens."""
    steps = RAMP_STEPS + SETTLING_STEPS + options.steps
    return min(MOST_TEXTS, (options.rounds + 1) * streams * (2 + steps // 80))


def _functions(profile: cProfile.Profile) -> str:
    """The functions that take most of the time, without that of the functions they call."""
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(PROFILED_FUNCTIONS)
    return text.getvalue()
