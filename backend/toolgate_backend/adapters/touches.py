"""Every name of vLLM's that Toolgate uses and that is not made for plug-ins, and what for.

Made for plug-ins, and not listed, are the plug-in groups, `LogitsProcessor` and what goes with it,
`EngineClient.collective_rpc`, `LoRARequest` and `init_logger`. Each name here is probed at the
start (probe.py), and has a test of its behaviour in tests/backend/ or tests/gateway/. Attributes
that only instances have (`AsyncLLM.engine_core`, `OpenAIServingModels.lora_requests`) have no more
than those tests.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Touch:
    target: str
    """`module:name`, or `module:Class.name`."""
    use: str
    arguments: tuple[str, ...] = ()
    """Names of arguments by which it is called."""
    older: str | None = None
    """Its target in older releases."""
    replaced: bool = False
    """A method of ours takes its place: it has these arguments, in this order, and no others."""
    abstract: tuple[str, ...] | None = None
    """The abstract methods of an interface that we implement: it has no others."""


COMMAND_LINE = Touch("vllm.entrypoints.cli.main:main", "`toolgate backend` starts vLLM's server")
"""It asks importlib.metadata for the version of `vllm`, which vllm_cli.py answers for the CPU build
as well."""

CALL_IDS = Touch(
    "vllm.renderers.chat_utils:get_tool_call_id_type",
    "ids of tool calls as the model's template needs them",
    ("model_config",),
    older="vllm.entrypoints.chat_utils:get_tool_call_id_type",  # 0.31
)

ENGINE = "vllm.v1.engine.core"
MANAGER = "vllm.v1.structured_output:StructuredOutputManager"
GRAMMAR = "vllm.v1.structured_output.backend_types:StructuredOutputGrammar"
RENDERER = "vllm.renderers.base:BaseRenderer"
MODEL_CONFIG = "vllm.config:ModelConfig"

SERVER: tuple[Touch, ...] = (
    CALL_IDS,
    # Routes.
    Touch(
        "vllm.entrypoints.serve.utils.api_utils:with_cancellation",
        "aborts a request that is not streamed when its client leaves",
    ),
    Touch("vllm.exceptions:VLLMClientError", "refusals that are the client's"),
    Touch("vllm.exceptions:GracefulHTTPError", "limits on queued requests"),
    Touch("vllm.v1.engine.exceptions:EngineDeadError", "reports an engine that died"),
    Touch(
        "vllm.entrypoints.openai.models.serving:OpenAIServingModels",
        "names of the served models",
        ("base_model_paths", "lora_modules"),
    ),
    # Messages → token ids.
    Touch("vllm.engine.protocol:EngineClient.renderer", "renders messages"),
    Touch(
        f"{RENDERER}.render_chat_async",
        "renders messages",
        ("conversations", "chat_params", "tok_params"),
    ),
    Touch(f"{RENDERER}.default_chat_tok_params", "truncation of prompts"),
    Touch("vllm.renderers.params:ChatParams", "arguments of templates", ("chat_template_kwargs",)),
    Touch(
        "vllm.renderers.params:TokenizeParams",
        "truncation of prompts",
        ("max_total_tokens", "truncate_prompt_tokens", "truncation_side", "add_special_tokens"),
    ),
    Touch("vllm.tokenizers:cached_tokenizer_from_config", "the vocabulary", ("model_config",)),
    # Sampling.
    Touch(
        "vllm.v1.engine.async_llm:AsyncLLM.generate",
        "generates, with masks from the first token on",
        ("prompt", "sampling_params", "request_id", "lora_request", "priority", "reasoning_ended"),
    ),
    Touch(
        "vllm.sampling_params:SamplingParams",
        "sampling parameters, among them our spec and n > 1 for greedy sampling",
        ("extra_args", "structured_outputs", "skip_clone"),
    ),
    Touch("vllm.sampling_params:StructuredOutputsParams", "parks requests", ("choice",)),
    Touch(
        "vllm.sampling_params:RepetitionDetectionParams",
        "`repetition_detection`",
        ("max_pattern_size", "min_pattern_size", "min_count"),
    ),
    Touch(f"{MODEL_CONFIG}.get_diff_sampling_param", "the model's own sampling parameters"),
    Touch(f"{MODEL_CONFIG}.try_get_generation_config", "the tokens at which the model stops"),
    Touch(f"{MODEL_CONFIG}.get_vocab_size", "the width of the logits"),
    Touch(f"{MODEL_CONFIG}.is_multimodal_model", "whether images are taken"),
    # The engine's processes.
    Touch("vllm.config:VllmConfig.use_v2_model_runner", "which adapter a server needs"),
    Touch("vllm.v1.worker.worker_base:WorkerBase", "takes our methods, which load grammars"),
    Touch(
        "vllm.v1.serial_utils:run_method",
        "runs our methods of a worker by name",
        ("obj", "method", "args", "kwargs"),
    ),
    Touch(f"{ENGINE}:EngineCore", "takes our methods, which load grammars"),
    Touch(
        "vllm.v1.executor.uniproc_executor:UniProcExecutor", "runs a model beside a CPU's few cores"
    ),
    Touch(MANAGER, "builds our grammars"),
    Touch(GRAMMAR, "the interface of our grammars"),
    Touch("vllm.v1.structured_output.utils:strip_speculative_padding", "drafts", ("token_ids",)),
)
"""What every server needs, whichever adapter it runs."""

VERBS = {
    "accept_tokens": ("self", "request_id", "tokens"),
    "validate_tokens": ("self", "tokens"),
    "rollback": ("self", "num_tokens"),
    "fill_bitmask": ("self", "bitmask", "batch_index"),
    "is_terminated": ("self",),
    "reset": ("self",),
}
"""Of vLLM's grammars, which ours are one kind of."""

STRUCTURED_OUTPUT: tuple[Touch, ...] = (
    # There is no registry of grammar back ends. `_create_grammar` builds a request's grammar in the
    # engine's pool; `validate_tokens` is shown each draft before it is scheduled.
    Touch(f"{MANAGER}._create_grammar", "builds our grammars", ("self", "request"), replaced=True),
    Touch(
        f"{MANAGER}.validate_tokens",
        "drafts text that must come",
        ("self", "request", "spec_tokens"),
        replaced=True,
    ),
    Touch(GRAMMAR, "the interface of our grammars", abstract=tuple(VERBS)),
    *(
        Touch(f"{GRAMMAR}.{verb}", "the interface of our grammars", arguments, replaced=True)
        for verb, arguments in VERBS.items()
    ),
    # The engine runs any method of `EngineCore` that a client names. That is how grammars reach the
    # scheduler's process, which `collective_rpc` does not.
    Touch(
        f"{ENGINE}:EngineCoreProc._handle_client_request",
        "runs our methods of the engine by name",
        ("request_type", "request"),
    ),
    Touch(
        "vllm.v1.engine.core_client:AsyncMPClient.call_utility_all_async",
        "calls our methods of every engine",
        ("method",),
        older="vllm.v1.engine.core_client:AsyncMPClient._call_utility_async",  # 0.31
    ),
    Touch(
        "vllm.v1.structured_output.request:StructuredOutputRequest.grammar",
        "tells our grammars from vLLM's",
    ),
    Touch("vllm.config:SpeculativeConfig.method", "whether drafts may be replaced"),
    Touch("vllm.config:VllmConfig.num_speculative_tokens", "how many drafts a step takes"),
    Touch("vllm.config:SchedulerConfig.async_scheduling", "whether drafts may be replaced"),
)
"""What the adapter structured_output needs besides."""
