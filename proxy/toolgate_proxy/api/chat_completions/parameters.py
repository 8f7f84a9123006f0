"""Every parameter of a chat request that is known here, and what becomes of it.

Admission goes by this table, and docs/parameters.md is made of it (`make docs`). What it does not
hold is refused by name; nothing is dropped in silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolgate_core.errors import UnsupportedParameter

Origin = Literal["OpenAI", "vLLM", "LiteLLM", "Toolgate"]
Support = Literal["taken", "no bearing", "only default", "refused"]


@dataclass(frozen=True)
class Parameter:
    name: str
    origin: Origin
    support: Support
    note: str
    """For `taken`: its values and what they do; for the others: why, and what to do instead."""
    defaults: tuple[object, ...] = ()
    """The values that pass, of one that is `only default`."""


def _taken(origin: Origin, **notes: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, origin, "taken", note) for name, note in notes.items())


def _no_bearing(origin: Origin, **notes: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, origin, "no bearing", note) for name, note in notes.items())


def _refused(origin: Origin, **notes: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, origin, "refused", note) for name, note in notes.items())


def _only(origin: Origin, name: str, *defaults: object, note: str) -> Parameter:
    return Parameter(name, origin, "only default", note, defaults)


PARAMETERS: tuple[Parameter, ...] = (
    *_taken(
        "OpenAI",
        frequency_penalty="-2 to 2",
        function_call='deprecated: "none", "auto" or {"name": …}; answered as `function_call`',
        functions="deprecated: as `tools`, with one call at most, answered as `function_call`",
        logit_bias="-100 to 100 by token id; what the grammar forces comes all the same",
        logprobs="of the content; those of calls and reasoning stand in fields of their own",
        max_completion_tokens="goes before `max_tokens`",
        max_tokens="reasoning included; one that no required call fits is refused",
        messages="see docs/messages.md",
        model="a model of the gateway, LoRA adapters among them",
        n="1 to 128; at temperature 0 as well",
        parallel_tool_calls="false: at most one call",
        presence_penalty="-2 to 2",
        reasoning_effort='"none" turns reasoning off; the others turn it on and set its budget',
        response_format="text, json_object, json_schema: held to by masks, also beside tools",
        seed="64 bits, signed",
        stop="a string or up to 64; acts on content only, never in reasoning or in a call",
        stream="server-sent events",
        stream_options="include_usage, continuous_usage_stats; include_obfuscation is ignored",
        temperature="0 or more",
        tool_choice='"none", "auto", "required", a named function, `allowed_tools`',
        tools="functions; `strict: true` refuses, up front, a schema that masks cannot hold whole",
        top_logprobs="0 to 20",
        top_p="above 0, up to 1",
    ),
    *_no_bearing(
        "OpenAI",
        metadata="about the record of a request",
        prompt_cache_key="the prefix cache needs no key",
        prompt_cache_retention="the prefix cache is vLLM's to keep",
        safety_identifier="about the user",
        service_tier="about the price",
        store="nothing is stored",
        user="about the user",
    ),
    _only("OpenAI", "modalities", ["text"], note="text only"),
    _only("OpenAI", "verbosity", "medium", note="no open model's template knows it"),
    *_refused(
        "OpenAI",
        audio="no audio comes out",
        prediction="predicted outputs are not supported",
        web_search_options="no search is built in; offer it as a tool",
    ),
    *_taken(
        "vLLM",
        add_generation_prompt="false: no opening of an assistant's turn",
        add_special_tokens="true: the tokenizer's own before the prompt; templates write theirs",
        allowed_token_ids="of plain content, without tools, response_format and reasoning",
        bad_words="not in content or reasoning; arguments go by their schema",
        cache_salt="keeps the prefix cache apart",
        chat_template_kwargs="to the template, but for what is the request's own",
        continue_final_message="true: goes on with the last message",
        documents="to the template",
        echo="true: the content begins with the message that is continued",
        ignore_eos="true: content goes on to `max_tokens`; a call ends as it must",
        include_reasoning="false: the reasoning is left out of the answer",
        include_stop_str_in_output="true: the stop string is part of the content",
        logprob_token_ids="their logprobs in the place of `top_logprobs`",
        min_p="0 to 1",
        min_tokens="up to `max_tokens`; content does not end before, a call ends as it must",
        priority="to vLLM's scheduler (`--scheduling-policy priority`)",
        prompt_logprobs="0 to 20, not streamed: `prompt_logprobs` of the answer",
        repetition_detection="of plain content, without tools and response_format",
        repetition_penalty="above 0",
        request_id="the answer's id is `chatcmpl-` and this; x-request-id is another",
        return_prompt_text="`prompt_text`, as the template rendered it",
        return_token_ids="`token_ids` of each choice and `prompt_token_ids`",
        return_tokens_as_token_ids="logprobs spell a token as `token_id:<id>`",
        stop_token_ids="act on content only, as `stop` does",
        structured_outputs="json, json_object, choice, regex: as `response_format`",
        thinking_token_budget="as `reasoning_budget`",
        top_k="-1 or 0: all",
        truncate_prompt_tokens="tokens of the prompt that are kept; -1: what there is room for",
        truncation_side='"left" keeps the last ones, "right" the first',
    ),
    *_no_bearing(
        "vLLM",
        skip_special_tokens="special tokens never come in content: there are none to skip",
        spaces_between_special_tokens="special tokens never come in content",
    ),
    _only("vLLM", "early_stopping", False, note="no beam search"),
    _only("vLLM", "length_penalty", 1, note="no beam search"),
    _only("vLLM", "media_io_kwargs", {}, note="the operator's"),
    _only("vLLM", "mm_processor_kwargs", {}, note="the operator's"),
    _only("vLLM", "use_beam_search", False, note="no beam search: vLLM gives it no processors"),
    *_refused(
        "vLLM",
        best_of="use `n`",
        chat_template="a template is the operator's to set, not a client's",
        ec_transfer_params="the operator's",
        guided_choice="use `structured_outputs` with choice",
        guided_grammar="use `structured_outputs` with regex",
        guided_json="use `response_format`",
        guided_regex="use `structured_outputs` with regex",
        kv_transfer_params="the operator's",
        vllm_xargs="they would reach past the masks",
        watermarking="not supported",
    ),
    *_no_bearing(
        "LiteLLM",
        extra_headers="to other providers",
        max_retries="the client's own matter",
        session_id="about the record of a request",
    ),
    *_refused("LiteLLM", timeout="set it in your client: when that leaves, the request ends"),
    *_taken(
        "LiteLLM", thinking='Anthropic\'s: {"type": "enabled", "budget_tokens": …} or disabled'
    ),
    *_taken(
        "Toolgate",
        enable_thinking="as `chat_template_kwargs.enable_thinking`",
        reasoning_budget="tokens after which the reasoning is closed; 0 closes it at once",
        toolgate='{"on_budget": "close"}: a call that `max_tokens` would cut is closed (lossy)',
    ),
)

BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}


def unknown(name: str) -> UnsupportedParameter:
    shown = name.encode(errors="replace").decode()  # half a surrogate pair has no place in JSON
    return UnsupportedParameter(f"The parameter {shown!r} is not known.", param=shown)
