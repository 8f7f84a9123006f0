"""vLLM's private names that Toolgate uses, and the use of each.

Each name is checked at start-up (probe.py) and has a behavioural test in tests/backend/ or
tests/gateway/. Attributes that exist only on instances cannot be checked at start-up; they have
only those tests: `AsyncLLM.engine_core` with `core_engines` and `reqs_in_flight`, `request_states`
of `AsyncLLM.output_processor`, `EngineCoreProc.input_queue`, `OpenAIServingModels.lora_requests`,
`requests` and `vllm_config` of the scheduler, `structured_output_request` and `is_prefill_chunk` of
its requests, `executor`, `backend`, `_grammar_bitmask` and `_use_async_grammar_compilation` of the
manager, `model_executor` and `vllm_config` of `EngineCore`, `device`, `vllm_config` and
`model_runner` of the workers, `structured_outputs_worker` of the V2 model runner, `req_ids` and
`cu_num_logits_np` of the batches.

Interfaces that vLLM provides for plug-ins are not listed: the plug-in groups, `LogitsProcessor` and
its types, `LoRARequest` and `init_logger`.
"""

from __future__ import annotations

from toolgate_core.host_probe import PrivateName

COMMAND_LINE = PrivateName(
    "vllm.entrypoints.cli.main:main", "`toolgate backend` starts vLLM's server"
)
"""It looks up the version of the distribution `vllm`; see probe.py for the CPU build."""

CALL_IDS = PrivateName(
    "vllm.renderers.chat_utils:get_tool_call_id_type",
    "tool-call ids in the form that the model's chat template needs",
    ("model_config",),
    older="vllm.entrypoints.chat_utils:get_tool_call_id_type",  # 0.31
)

ENGINE = "vllm.v1.engine.core"
SERVER_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.serve")
"""The largest modules of the process with the HTTP server. They are imported early."""
ENGINE_MODULES = (ENGINE, "vllm.v1.worker.gpu_worker")
"""The largest modules of the engine's processes."""
MANAGER = "vllm.v1.structured_output:StructuredOutputManager"
SCHEDULE = "vllm.v1.core.sched"
GRAMMAR = "vllm.v1.structured_output.backend_types:StructuredOutputGrammar"
RENDERER = "vllm.renderers.base:BaseRenderer"
MODEL_CONFIG = "vllm.config:ModelConfig"

SERVER: tuple[PrivateName, ...] = (
    CALL_IDS,
    # HTTP routes.
    PrivateName(
        "vllm.entrypoints.serve.utils.api_utils:with_cancellation",
        "aborts a non-streaming request when its client disconnects",
    ),
    PrivateName("vllm.exceptions:VLLMClientError", "errors caused by the client"),
    PrivateName("vllm.exceptions:GracefulHTTPError", "vLLM's limit on queued requests"),
    PrivateName("vllm.exceptions:GenerationError", "errors that allow another try"),
    PrivateName(
        "vllm.v1.engine.exceptions:EngineDeadError", "error responses after the engine died"
    ),
    PrivateName(
        "vllm.entrypoints.openai.models.serving:OpenAIServingModels",
        "names of the served models",
        ("base_model_paths", "lora_modules"),
    ),
    # Rendering: messages → token ids.
    PrivateName("vllm.engine.protocol:EngineClient.renderer", "renders chat messages"),
    PrivateName(
        f"{RENDERER}.render_chat_async",
        "renders chat messages",
        ("conversations", "chat_params", "tok_params"),
    ),
    PrivateName(f"{RENDERER}.default_chat_tok_params", "prompt truncation"),
    PrivateName(
        "vllm.renderers.params:ChatParams", "chat-template arguments", ("chat_template_kwargs",)
    ),
    PrivateName(
        "vllm.renderers.params:TokenizeParams",
        "prompt truncation",
        ("max_total_tokens", "truncate_prompt_tokens", "truncation_side", "add_special_tokens"),
    ),
    PrivateName(
        "vllm.tokenizers:cached_tokenizer_from_config", "loads the tokenizer", ("model_config",)
    ),
    # Sampling.
    PrivateName(
        "vllm.v1.engine.async_llm:AsyncLLM.generate",
        "generation, with masks from the first token on",
        (
            *("prompt", "sampling_params", "request_id", "lora_request", "priority"),
            *("data_parallel_rank", "reasoning_ended"),
        ),
    ),
    PrivateName(
        "vllm.v1.engine.async_llm:AsyncLLM.notify_kv_transfer_request_rejected",
        "frees the KV cache that a prefill engine keeps for a refused request",
        ("request_id", "kv_transfer_params", "data_parallel_rank"),
    ),
    PrivateName(
        "vllm.v1.engine.async_llm:AsyncLLM.shutdown",
        "a backend that ends refuses new requests and finishes its responses",
        ("timeout",),
    ),
    PrivateName(
        "vllm.sampling_params:SamplingParams",
        "sampling parameters, including the enforcement spec and n > 1 for greedy sampling",
        ("extra_args", "structured_outputs", "skip_clone"),
    ),
    PrivateName(
        "vllm.sampling_params:StructuredOutputsParams",
        "makes vLLM wait for a request's grammar",
        ("choice",),
    ),
    PrivateName(
        "vllm.sampling_params:RepetitionDetectionParams",
        "`repetition_detection`",
        ("max_pattern_size", "min_pattern_size", "min_count"),
    ),
    PrivateName(
        f"{MODEL_CONFIG}.get_diff_sampling_param", "the model's default sampling parameters"
    ),
    PrivateName(f"{MODEL_CONFIG}.try_get_generation_config", "the model's end-of-turn tokens"),
    PrivateName(f"{MODEL_CONFIG}.get_vocab_size", "the width of the logits"),
    PrivateName(f"{MODEL_CONFIG}.is_multimodal_model", "whether the model accepts images"),
    # Engine processes.
    PrivateName("vllm.config:VllmConfig.use_v2_model_runner", "choice of the adapter"),
    PrivateName("vllm.v1.worker.worker_base:WorkerBase", "base of the methods that load grammars"),
    PrivateName(
        "vllm.v1.serial_utils:run_method",
        "calls the worker methods by name",
        ("obj", "method", "args", "kwargs"),
    ),
    PrivateName(f"{ENGINE}:EngineCore", "base of the methods that load grammars"),
    # The engine runs any method of `EngineCore` that a client names: methods that load grammars in
    # the scheduler's process, and `collective_rpc`, which calls those of the workers.
    PrivateName(
        f"{ENGINE}:EngineCoreProc._handle_client_request",
        "calls the engine methods by name",
        ("request_type", "request"),
    ),
    PrivateName(
        f"{ENGINE}:EngineCore.collective_rpc",
        "calls the worker methods",
        ("method", "timeout", "args", "kwargs"),
    ),
    PrivateName(
        "vllm.v1.engine.core_client:AsyncMPClient._call_utility_async",
        "calls the engine methods on every engine",
        ("method", "engine"),
    ),
    PrivateName(
        f"{ENGINE}:EngineCoreProc.process_input_sockets", "shows whether an engine responds"
    ),
    PrivateName("vllm.v1.engine.async_llm:AsyncLLM.check_health", "`/health`", ("self",)),
    PrivateName(
        "vllm.v1.executor.uniproc_executor:UniProcExecutor",
        "runs the model in the engine's process on few CPU cores",
    ),
    PrivateName(MANAGER, "creates Toolgate's grammars"),
    PrivateName(GRAMMAR, "the grammar interface"),
    PrivateName(
        "vllm.v1.structured_output.utils:strip_speculative_padding", "draft padding", ("token_ids",)
    ),
)
"""Names that every server needs, whichever adapter it uses."""

GRAMMAR_METHODS = {
    "accept_tokens": ("self", "request_id", "tokens"),
    "validate_tokens": ("self", "tokens"),
    "rollback": ("self", "num_tokens"),
    "fill_bitmask": ("self", "bitmask", "batch_index"),
    "is_terminated": ("self",),
    "reset": ("self",),
}
"""The methods of vLLM's grammar interface, and their arguments."""

STRUCTURED_OUTPUT: tuple[PrivateName, ...] = (
    # vLLM has no registry of grammar back ends. `_create_grammar` builds a request's grammar in the
    # engine's pool, after `grammar_init` has created vLLM's own back end, which takes a second.
    # `validate_tokens` is called with each draft before it is scheduled.
    PrivateName(
        f"{MANAGER}.grammar_init",
        "creates Toolgate's grammars without vLLM's own back end",
        ("self", "request"),
        replaced=True,
    ),
    PrivateName(
        f"{MANAGER}._create_grammar",
        "creates Toolgate's grammars",
        ("self", "request"),
        replaced=True,
    ),
    PrivateName(
        f"{MANAGER}.validate_tokens",
        "proposes forced text as drafts",
        ("self", "request", "spec_tokens"),
        replaced=True,
    ),
    PrivateName(
        f"{MANAGER}.grammar_bitmask",
        "allocates the bitmask if vLLM's own back end does not exist",
        ("self", "requests", "structured_output_request_ids", "scheduled_spec_decode_tokens"),
        replaced=True,
    ),
    # Called at each step. vLLM's own loops over sequences cost more than Toolgate's masks.
    PrivateName(
        f"{MANAGER}.accept_tokens",
        "accepts sampled tokens",
        ("self", "request", "new_token_ids"),
        replaced=True,
    ),
    PrivateName(
        f"{SCHEDULE}.scheduler:Scheduler.get_grammar_bitmask",
        "computes the masks of a step",
        ("self", "scheduler_output"),
        replaced=True,
    ),
    PrivateName(
        f"{SCHEDULE}.output:SchedulerOutput",
        "the sequences of a step",
        (
            *("num_scheduled_tokens", "has_structured_output_requests"),
            "scheduled_spec_decode_tokens",
        ),
    ),
    PrivateName(
        f"{SCHEDULE}.output:GrammarOutput",
        "the masks of a step",
        ("structured_output_request_ids", "grammar_bitmask"),
    ),
    PrivateName(GRAMMAR, "the grammar interface", abstract=tuple(GRAMMAR_METHODS)),
    *(
        PrivateName(f"{GRAMMAR}.{method}", "the grammar interface", arguments, replaced=True)
        for method, arguments in GRAMMAR_METHODS.items()
    ),
    *(
        PrivateName(
            f"vllm.v1.structured_output.request:StructuredOutputRequest.{name}",
            "distinguishes Toolgate's grammars from vLLM's",
        )
        for name in ("grammar", "_grammar")
    ),
    PrivateName("vllm.config:SpeculativeConfig.method", "whether drafts may be replaced"),
    PrivateName("vllm.config:VllmConfig.num_speculative_tokens", "number of drafts in a step"),
    PrivateName("vllm.config:SchedulerConfig.async_scheduling", "whether drafts may be replaced"),
)
"""Further names that the adapter structured_output needs."""

EXECUTORS = tuple(
    PrivateName(f"vllm.v1.executor.{name}", "calls all workers for each step, in order")
    for name in ("uniproc_executor:UniProcExecutor", "multiproc_executor:MultiprocExecutor")
)
"""The executors whose workers keep rows of masks. Subclasses may call them in other ways."""
ROWS = tuple(
    PrivateName(f"vllm.config:{name}", "whether a worker can keep rows of masks")
    for name in (
        "ModelConfig.is_diffusion",
        "ParallelConfig.enable_batch_sharded_sampling",
        "SpeculativeConfig.enable_adaptive_verification",
    )
)
ROWS_V1 = PrivateName(
    "vllm.v1.worker.gpu_model_runner:apply_grammar_bitmask",
    "applies rows of masks",
    ("scheduler_output", "grammar_output", "input_batch", "logits"),
    replaced=True,
)
ROWS_V2 = PrivateName(
    "vllm.v1.worker.gpu.structured_outputs:StructuredOutputsWorker.apply_grammar_bitmask",
    "applies rows of masks",
    ("self", "logits", "input_batch", "grammar_req_ids", "grammar_bitmask"),
    replaced=True,
)
"""Further names that the workers need to keep rows of masks, by model runner. If one is missing,
the adapter structured_output sends bitmasks."""

V2_RUNNER = "vllm.v1.worker.gpu.model_runner"

FORCED_DRAFTS: tuple[PrivateName, ...] = (
    PrivateName(
        "vllm.config:SpeculativeConfig.num_speculative_tokens_per_batch_size",
        "turns vLLM's own drafts off",
    ),
    PrivateName(
        "vllm.v1.core.sched.output:SchedulerOutput.num_spec_tokens_to_schedule",
        "requests without forced text get no drafts",
    ),
    PrivateName(
        "vllm.v1.core.sched.output:GrammarOutput.num_acceptable_drafts",
        "the workers reject drafts that have become wrong",
    ),
    PrivateName(
        f"{ENGINE}:EngineCore.step_with_batch_queue",
        "the scheduler's drafts are not replaced by the workers'",
        ("self",),
        replaced=True,
    ),
    PrivateName(
        f"{V2_RUNNER}:init_speculator",
        "no drafter runs in the workers",
        ("vllm_config", "device", "req_states"),
        replaced=True,
    ),
    PrivateName(
        "vllm.v1.worker.gpu.spec_decode.speculator:BaseSpeculator",
        "no drafter runs in the workers",
        abstract=("init_cudagraph_manager", "capture", "propose"),
    ),
    PrivateName(
        f"{V2_RUNNER}:GPUModelRunner.prepare_inputs",
        "the workers verify the scheduler's drafts",
        ("self", "scheduler_output", "batch_req_state", "batch_desc", "num_active_loras"),
        replaced=True,
    ),
    PrivateName(
        "vllm.utils.torch_utils:async_tensor_h2d",
        "copies drafts to the GPU",
        ("data", "device"),
    ),
)
"""Further names that drafts of forced text under async scheduling need."""
