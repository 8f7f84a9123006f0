"""vLLM's own scheduler, structured-output manager and persistent batch, without workers."""

import copy
import time
from functools import cache
from typing import Any

import torch
from vllm.config import set_current_vllm_config
from vllm.engine.arg_utils import EngineArgs
from vllm.platforms import current_platform
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.sample.logits_processor import LogitsProcessors
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.worker.gpu_input_batch import InputBatch

from tests import tools
from tests.long.scheduler.oracle import Profile
from tests.models import tiny_model
from toolgate_backend.adapters import draft_config, vllm_host
from toolgate_backend.adapters.engine_sequences import engine_sequences
from toolgate_backend.adapters.logits_processor import EnforcementLogitsProcessor
from toolgate_backend.grammars.store import GrammarStore
from toolgate_backend.grammars.worker_rpc import source_text
from toolgate_backend.tokens.vocabulary import Vocabulary, from_model_config
from toolgate_core import grammar_key
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource

BLOCK_SIZE = 16
MAX_LENGTH = 320
"""Tokens of a prompt and its response."""
DEVICE = torch.device("cpu")


@cache
def _base_config() -> Any:
    vllm_host.register()
    current_platform.register_triton_kernel_overrides()
    arguments = EngineArgs(
        model=str(tiny_model()),
        dtype="float32",
        max_model_len=MAX_LENGTH,
        enforce_eager=True,
        async_scheduling=False,
        speculative_config={
            "method": "ngram",
            "num_speculative_tokens": 1,
            "prompt_lookup_max": 4,
        },
    )
    return arguments.create_engine_config()


@cache
def vocabulary() -> Vocabulary:
    return from_model_config(_base_config().model_config)


def config_of(profile: Profile) -> Any:
    """The VllmConfig that a server with these drafts would have. The draft model is left out."""
    config = copy.copy(_base_config())
    scheduler = config.scheduler_config = copy.copy(config.scheduler_config)
    scheduler.max_num_seqs = profile.rows
    scheduler.max_num_batched_tokens = scheduler.max_num_scheduled_tokens = profile.batched_tokens
    scheduler.async_scheduling = profile.async_scheduling
    config.cache_config = copy.copy(config.cache_config)
    config.cache_config.num_gpu_blocks = profile.blocks
    config.cache_config.block_size = BLOCK_SIZE
    if profile.drafts:
        speculative = config.speculative_config = copy.copy(config.speculative_config)
        speculative.method = profile.shape
        speculative.num_speculative_tokens = profile.drafts
        if profile.shape == "forced":
            speculative.method = draft_config.METHOD
            setattr(speculative, draft_config.SCHEDULE, [(1, 1, 0)])
    else:
        config.speculative_config = None
    return config


@cache
def _manager() -> Any:
    """Creating one takes a second: it reads the tokenizer."""
    with set_current_vllm_config(_base_config()):
        manager = StructuredOutputManager(_base_config())
    # Grammars are ready at once, so that a seed is always the same run.
    manager._use_async_grammar_compilation = False
    return manager


@cache
def block_hasher() -> Any:
    """For prefix caching, which decides how much of a preempted request is computed again."""
    init_none_hash(sha256)
    return get_request_block_hasher(BLOCK_SIZE, sha256)


def make_manager(config: Any) -> Any:
    manager = copy.copy(_manager())
    manager.vllm_config = config
    manager._grammar_bitmask = None
    return manager


def make_scheduler(profile: Profile, config: Any, manager: Any) -> Any:
    spec = FullAttentionSpec(
        block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    kv_cache = KVCacheConfig(
        num_blocks=profile.blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
    )
    kind = AsyncScheduler if profile.async_scheduling else Scheduler
    return kind(
        vllm_config=config,
        kv_cache_config=kv_cache,
        structured_output_manager=manager,
        block_size=BLOCK_SIZE,
    )


@cache
def processor() -> EnforcementLogitsProcessor:
    """One for all engines of the adapter: it has no state but its rows and grammars."""
    return EnforcementLogitsProcessor(_base_config(), DEVICE, False)


def make_batch(profile: Profile, vocabulary_size: int) -> Any:
    processors = [processor()] if profile.adapter == "logits_processor" else []
    return InputBatch(
        max_num_reqs=profile.rows,
        max_model_len=MAX_LENGTH + 16,
        max_num_batched_tokens=profile.batched_tokens,
        device=DEVICE,
        vocab_size=vocabulary_size,
        block_sizes=[BLOCK_SIZE],
        max_num_blocks_per_req=[MAX_LENGTH // BLOCK_SIZE + 4],
        logitsprocs=LogitsProcessors(processors),
        logitsprocs_need_output_token_ids=bool(processors),
        num_spec_tokens=profile.drafts,
    )


def grammar_store() -> GrammarStore:
    """That of the adapter structured_output."""
    return engine_sequences(_base_config()).store


@cache
def loaded_tools() -> dict[str, dict[str, Any]]:
    """The parameters of the tools by grammar key, loaded for both adapters."""
    found: dict[str, dict[str, Any]] = {}
    sources: dict[str, str] = {}
    for tool in parse_tools(tools.ALL):
        key = grammar_key.grammar_key(tool.hash, dialect="qwen3", tokenizer="t", grammar_format="f")
        source = GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
        sources[key] = source_text(source)
        found[key] = {"name": tool.name, "parameters": tool.parameters}
    for store in (grammar_store(), processor()._enforced.store):
        store.load("bench", sources)
        while len(store.verdicts([*sources])) < len(sources):
            time.sleep(0.01)
    return found
