"""The parameter table of the Responses API. docs/api/parameters.md is generated from it by
`make docs`.

A parameter that the table does not have is an error: the gateway drops no parameter silently.
The defaults of a deployment, which are parameters of chat completions, are renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ... import removed
from ..shared.content_format import JSON_SCHEMA, OF_TYPE
from ..shared.options import PROMPT_CACHE_KEY, shared_rows
from ..shared.parameter import Parameter, ignored, make_table, over_defaults, rejected, rows
from ..shared.template import EFFORT_BUDGETS
from ..shared.tools import MAX_TOOLS, TOOL_CHOICES
from ..shared.value_types import Anything, Array, Choice, Flag, Integer, Object, Text, TextMap

LOGPROBS = "message.output_text.logprobs"
ENCRYPTED = "reasoning.encrypted_content"
INCLUDES = (
    LOGPROBS,
    ENCRYPTED,
    "message.input_image.image_url",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "web_search_call.action.sources",
    "web_search_call.results",
)
SUMMARIES = ("auto", "concise", "detailed", "none")

RESPONSES: tuple[Parameter, ...] = (
    *rows(
        "OpenAI",
        model=(Text(), "A model of the gateway or a LoRA adapter."),
        input=(
            Anything("a non-empty string or a non-empty array of items"),
            "See [items](responses.md#input).",
        ),
        instructions=(Text(), "The first system message of the prompt."),
        tools=(Array("tools", MAX_TOOLS), "See [tools](responses.md#tools)."),
        tool_choice=(
            Anything(TOOL_CHOICES),
            "The object has the type `function`, `custom` or `allowed_tools`.",
        ),
        include=(
            Array("names of additional output"),
            f"`{LOGPROBS}` returns logprobs, `{ENCRYPTED}` the encrypted "
            "reasoning. OpenAI's other values have no effect.",
        ),
        metadata=(TextMap(16, name=64, length=512), "Returned with the response."),
        store=(
            Flag(),
            "Whether it is [stored](responses.md#stored-responses). Default: true.",
        ),
        previous_response_id=(
            Text(minimum=1, maximum=256),
            "Continue a [stored response](responses.md#stored-responses).",
        ),
        context_management=(
            Array("objects of the type compaction", maximum=10),
            "See [compaction](responses.md#compaction).",
        ),
        background=(
            Flag(),
            "See [background](responses.md#background).",
        ),
    ),
    Parameter(
        "max_output_tokens",
        Integer(1),
        "Includes reasoning, and must allow a required call.",
        to="sampling.max_tokens",
    ),
    *rows(
        "OpenAI",
        "request",
        stream=(Flag(), "Send server-sent events."),
        parallel_tool_calls=(Flag(), "false allows at most one call."),
        max_tool_calls=(
            Integer(1),
            "Calls that the gateway runs. The model sees that further ones did not run.",
        ),
    ),
    Parameter(
        "stream_options",
        Object({"include_obfuscation": Flag()}),
        "Requires `stream`.",
        without_effect=("include_obfuscation",),
    ),
    Parameter(
        "text",
        Object(
            {
                "format": Object({"type": Choice(tuple(OF_TYPE)), **JSON_SCHEMA}, ("type",)),
                "verbosity": Choice(("low", "medium", "high")),
            }
        ),
        "The format has the type text, json_object or json_schema. Its schema is always enforced.",
        without_effect=("format.name", "format.description", "format.strict", "verbosity"),
    ),
    Parameter(
        "reasoning",
        Object(
            {
                "effort": Choice(tuple(EFFORT_BUDGETS)),
                "summary": Choice(SUMMARIES),
                "generate_summary": Choice(SUMMARIES),
                "context": Choice(("auto", "current_turn", "all_turns")),
                "mode": Choice(("standard",)),
            }
        ),
        "`effort` as `reasoning_effort`. With `summary`, the reasoning is sent as the summary.",
        stands_for={"effort": "reasoning_effort"},
        without_effect=("context", "mode"),
    ),
    PROMPT_CACHE_KEY,
    Parameter(
        "prompt_cache_retention",
        Choice(("in_memory", "in-memory", "24h")),
        "vLLM manages the prefix cache.",
        support="ignored",
    ),
    Parameter(
        "safety_identifier", Text(maximum=1024), "It identifies the end user.", support="ignored"
    ),
    Parameter("user", Text(maximum=1024), "It identifies the end user.", support="ignored"),
    Parameter(
        "truncation",
        Choice(("auto", "disabled")),
        '"auto" drops the oldest turns of an `input` that exceeds the context.',
        to="shortening.drop_oldest",
        means={"auto": True, "disabled": False},
    ),
    *ignored(
        "OpenAI",
        client_metadata="It is for the client's records.",
        prompt_cache_options="vLLM manages the prefix cache.",
        service_tier="There are no service tiers.",
    ),
    *rejected(
        "OpenAI",
        conversation=removed.PARAMETERS["conversation"],
        moderation="Moderation is not built in.",
        prompt="Prompts are not stored. Send `instructions` and `input`.",
    ),
)
CHAT_ONLY = ("logprobs", "reasoning_effort")
"""Shared parameters that the Responses API writes in another way."""
NOTES = {
    "top_logprobs": f"Alternatives per token, returned if `include` has `{LOGPROBS}`.",
    "best_of": "Send several requests.",
    "guided_json": "Use `text.format`.",
}
"""Notes of shared parameters in the words of this API."""

PARAMETERS: tuple[Parameter, ...] = (
    *RESPONSES,
    *(
        replace(row, note=NOTES.get(row.name, row.note).replace("max_tokens", "max_output_tokens"))
        for row in shared_rows(CHAT_ONLY)
    ),
)
BY_NAME = make_table(PARAMETERS)


RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
INSIDE = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}


def with_defaults(body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the defaults that it does not set, under the names of this API. Defaults that
    are of no use here are left out: `n`, `stream_options`, `functions` …"""
    merged: dict[str, Any] = {}
    for name, value in defaults.items():
        name = RENAMED.get(name, name)
        if name in INSIDE:
            outer, inner = INSIDE[name]
            merged[outer] = {**merged.get(outer, {}), inner: value}
        elif name == "response_format":
            merged["text"] = {**merged.get("text", {}), "format": _format(value)}
        elif name in BY_NAME and name not in ("tool_choice", "tools", "stream_options"):
            merged[name] = value
    return over_defaults(body, merged, nested=("reasoning", "text"))


def _format(given: Any) -> Any:
    """Convert `response_format` to `text.format`."""
    nested = given.get("json_schema") if isinstance(given, dict) else None
    return {"type": "json_schema", **nested} if isinstance(nested, dict) else given
