"""The names of vLLM that Toolgate uses, the use of each, and why there is no other way.

Each name is checked at start-up (probe.py) and has a behavioural test in tests/backend/ or
tests/gateway/. Attributes that exist only on instances cannot be checked at start-up; they have
only those tests: `AsyncLLM.engine_core` with `core_engines` and `reqs_in_flight`, `request_states`
of `AsyncLLM.output_processor`, `EngineCoreProc.input_queue`, `OpenAIServingModels.lora_requests`,
`requests` and `vllm_config` of the scheduler, `structured_output_request` and `is_prefill_chunk` of
its requests, `executor`, `backend`, `_grammar_bitmask` and `_use_async_grammar_compilation` of the
manager, `model_executor` and `vllm_config` of `EngineCore`, `device`, `vllm_config` and
`model_runner` of the workers, `structured_outputs_worker` of the V2 model runner, `req_ids` and
`cu_num_logits_np` of the batches.

Interfaces that vLLM provides for plug-ins are not listed: the command `vllm`, the plug-in groups,
`EngineClient`, `LogitsProcessor` of both model runners and its types, the names of worker methods
in `collective_rpc`, `LoRARequest` and `init_logger`; nor are attributes of `vllm.config` that are
used when the server starts. The others that are public, `PUBLIC` and those of `vllm.config`, are
checked all the same.
"""

from __future__ import annotations

from toolgate_core.host_probe import PrivateName

ENGINE = "vllm.v1.engine.core"
SERVER_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.serve")
"""The largest modules of the process with the HTTP server. They are imported early."""
ENGINE_MODULES = (ENGINE, "vllm.v1.worker.gpu_worker")
"""The largest modules of the engine's processes."""
MANAGER = "vllm.v1.structured_output:StructuredOutputManager"
SCHEDULE = "vllm.v1.core.sched"
RENDERER = "vllm.renderers"
CONFIG, SAMPLING, CLIENT = (
    "vllm.config",
    "vllm.sampling_params",
    "vllm.engine.protocol:EngineClient",
)
UNIPROC = "vllm.v1.executor.uniproc_executor:UniProcExecutor"
V2_RUNNER = "vllm.v1.worker.gpu"


def _used(use: str, *rows: str, replaced: bool = False) -> tuple[PrivateName, ...]:
    """A row is a name, and the names of its arguments."""
    split = (row.split() for row in rows)
    return tuple(PrivateName(name, use, (*given,), replaced=replaced) for name, *given in split)


PUBLIC = (
    *_used(
        "generation, with masks from the first token on",
        f"{CLIENT}.generate prompt sampling_params request_id lora_request priority "
        "data_parallel_rank reasoning_ended",
        f"{SAMPLING}:SamplingParams extra_args structured_outputs skip_clone",
        f"{SAMPLING}:StructuredOutputsParams choice",
        f"{SAMPLING}:RepetitionDetectionParams max_pattern_size min_pattern_size min_count",
        f"{CONFIG}:ModelConfig.get_diff_sampling_param",
    ),
    *_used(
        "the ends of requests and servers",
        f"{CLIENT}.notify_kv_transfer_request_rejected request_id kv_transfer_params "
        "data_parallel_rank",
        f"{CLIENT}.shutdown timeout",
        "vllm.exceptions:VLLMClientError",
        "vllm.exceptions:GracefulHTTPError",
        "vllm.exceptions:GenerationError",
    ),
)
"""What vLLM documents for clients of the engine, of parameters, errors and configuration, where it
is not used before the first request."""

CALL_IDS = PrivateName(
    f"{RENDERER}.chat_utils:get_tool_call_id_type",
    "tool-call ids in the form that the model's chat template needs",
    ("model_config",),
    older="vllm.entrypoints.chat_utils:get_tool_call_id_type",  # 0.31
)

GRAMMAR = PrivateName(
    "vllm.v1.structured_output.backend_types:StructuredOutputGrammar",
    "the grammar interface",
    abstract={
        "accept_tokens": ("self", "request_id", "tokens"),
        "validate_tokens": ("self", "tokens"),
        "rollback": ("self", "num_tokens"),
        "fill_bitmask": ("self", "bitmask", "batch_index"),
        "is_terminated": ("self",),
        "reset": ("self",),
    },
)

SERVER = (
    *PUBLIC,
    # vLLM has no public names for what its own routes do with a request.
    *_used(
        "HTTP routes",
        "vllm.entrypoints.serve.utils.api_utils:with_cancellation",
        "vllm.v1.engine.exceptions:EngineDeadError",
        "vllm.entrypoints.openai.models.serving:OpenAIServingModels base_model_paths lora_modules",
    ),
    # `EngineClient` has a renderer, but nothing says what that can do.
    CALL_IDS,
    *_used(
        "messages → token ids",
        f"{RENDERER}.base:BaseRenderer.render_chat_async conversations chat_params tok_params",
        f"{RENDERER}.base:BaseRenderer.default_chat_tok_params",
        f"{RENDERER}.params:ChatParams chat_template_kwargs",
        f"{RENDERER}.params:TokenizeParams max_total_tokens truncate_prompt_tokens truncation_side "
        "add_special_tokens",
        "vllm.tokenizers:cached_tokenizer_from_config model_config",
    ),
    # The public `collective_rpc` returns the results of the first engine's workers only, and
    # reaches no scheduler. Nothing public tells whether an engine responds.
    *_used(
        "calls the methods that load grammars, in every engine",
        "vllm.v1.worker.worker_base:WorkerBase",
        f"{ENGINE}:EngineCore",
        f"{ENGINE}:EngineCore.collective_rpc method timeout args kwargs",
        f"{ENGINE}:EngineCoreProc._handle_client_request request_type request",
        f"{ENGINE}:EngineCoreProc.process_input_sockets",
        "vllm.v1.engine.core_client:AsyncMPClient._call_utility_async method engine",
    ),
    # On a CPU, its public name `uni` means another executor.
    *_used("runs the model in the engine's process on few cores", UNIPROC),
    GRAMMAR,  # both adapters implement it
)
"""Names that every server needs, whichever adapter it uses."""

STRUCTURED_OUTPUT = (
    # vLLM has no registry of grammar back ends. `_create_grammar` builds a request's grammar in the
    # engine's pool, after `grammar_init` has created vLLM's own back end, which takes a second.
    # `validate_tokens` is called with each draft before it is scheduled, the others at each step:
    # vLLM's own loops over sequences cost more than Toolgate's masks.
    *_used(
        "Toolgate's grammars and masks",
        f"{MANAGER}.grammar_init self request",
        f"{MANAGER}._create_grammar self request",
        f"{MANAGER}.validate_tokens self request spec_tokens",
        f"{MANAGER}.accept_tokens self request new_token_ids",
        f"{MANAGER}.grammar_bitmask self requests structured_output_request_ids "
        "scheduled_spec_decode_tokens",
        f"{SCHEDULE}.scheduler:Scheduler.get_grammar_bitmask self scheduler_output",
        replaced=True,
    ),
    # `grammar` waits for the pool, which costs too much at each token.
    *_used(
        "the sequences and masks of a step",
        f"{SCHEDULE}.output:SchedulerOutput num_scheduled_tokens has_structured_output_requests "
        "scheduled_spec_decode_tokens",
        f"{SCHEDULE}.output:GrammarOutput structured_output_request_ids grammar_bitmask",
        "vllm.v1.structured_output.request:StructuredOutputRequest.grammar",
        "vllm.v1.structured_output.request:StructuredOutputRequest._grammar",
    ),
    *_used(
        "whether drafts may be replaced, and their number",
        f"{CONFIG}:SpeculativeConfig.method",
        f"{CONFIG}:VllmConfig.num_speculative_tokens",
        f"{CONFIG}:SchedulerConfig.async_scheduling",
    ),
)
"""Further names that the adapter structured_output needs."""

EXECUTORS = _used(
    "calls all workers for each step, in order",
    UNIPROC,
    "vllm.v1.executor.multiproc_executor:MultiprocExecutor",
)
"""The executors whose workers keep rows of masks. Subclasses may call them in other ways."""
ROWS = _used(
    "whether a worker can keep rows of masks",
    f"{CONFIG}:ModelConfig.is_diffusion",
    f"{CONFIG}:ParallelConfig.enable_batch_sharded_sampling",
    f"{CONFIG}:SpeculativeConfig.enable_adaptive_verification",
)
(ROWS_V1, ROWS_V2) = _used(
    "applies rows of masks",
    "vllm.v1.worker.gpu_model_runner:apply_grammar_bitmask scheduler_output grammar_output "
    "input_batch logits",
    f"{V2_RUNNER}.structured_outputs:StructuredOutputsWorker.apply_grammar_bitmask self logits "
    "input_batch grammar_req_ids grammar_bitmask",
    replaced=True,
)
"""Further names that the workers need to keep rows of masks, by model runner. vLLM itself sends
bitmasks, which cost more than the masks. If a name is missing, Toolgate does so, too."""

FORCED_DRAFTS = (
    # vLLM's speculative methods draft in the workers only.
    *_used(
        "drafts come from the scheduler",
        f"{CONFIG}:SpeculativeConfig.num_speculative_tokens_per_batch_size",
        f"{SCHEDULE}.output:SchedulerOutput num_spec_tokens_to_schedule",
        f"{SCHEDULE}.output:GrammarOutput num_acceptable_drafts",
    ),
    *_used(
        "the workers verify the scheduler's drafts, and no drafter runs",
        f"{ENGINE}:EngineCore.step_with_batch_queue self",
        f"{V2_RUNNER}.model_runner:init_speculator vllm_config device req_states",
        f"{V2_RUNNER}.model_runner:GPUModelRunner.prepare_inputs self scheduler_output "
        "batch_req_state batch_desc num_active_loras",
        replaced=True,
    ),
    PrivateName(
        f"{V2_RUNNER}.spec_decode.speculator:BaseSpeculator",
        "no drafter runs in the workers",
        abstract=dict.fromkeys(("init_cudagraph_manager", "capture", "propose")),
    ),
)
"""Further names that drafts of forced text under async scheduling need."""
