"""The parameter table of chat completions. `make docs` generates docs/api/parameters.md from it.

A parameter that the table does not have is an error: the gateway drops no parameter silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...request_fields import Fields
from ..shared.content_format import RESPONSE_FORMAT_TYPE
from ..shared.options import PROMPT_CACHE_KEY, SHARED
from ..shared.parameter import Parameter, default_only, ignored, make_table, rejected, rows, unknown
from ..shared.template import EFFORT_BUDGETS
from ..shared.tools import MAX_TOOLS, TOOL_CHOICES
from ..shared.value_types import Anything, Array, Choice, Flag, Integer, Object, Text

CHAT_COMPLETIONS: tuple[Parameter, ...] = (
    *rows(
        "OpenAI",
        model=(Text(), "A model of the gateway or a LoRA adapter."),
        messages=(Anything("a non-empty array of messages"), "See [messages](chat.md#messages)."),
        tools=(
            Array("tools", MAX_TOOLS),
            "Functions, [custom tools](custom-tools.md) and [MCP servers](chat.md#mcp-servers). "
            "`strict: true` rejects a schema that can't be enforced completely.",
        ),
        tool_choice=(
            Anything(TOOL_CHOICES),
            "The object has the type `function`, `custom` or `allowed_tools`.",
        ),
        functions=(
            Array("functions"),
            "Deprecated. The response has at most one call, as `function_call`.",
        ),
        function_call=(
            Anything('"none", "auto" or an object with a name'),
            "Deprecated.",
        ),
    ),
    *rows(
        "OpenAI",
        "sampling",
        n=(Integer(1, 128), "Number of choices, also with a temperature of 0."),
        max_tokens=(
            Integer(1),
            "Includes reasoning, and must allow a required call.",
        ),
    ),
    Parameter(
        "max_completion_tokens",
        Integer(1),
        "Has precedence over `max_tokens`.",
        to="sampling.max_tokens",
    ),
    *rows(
        "OpenAI",
        "request",
        stream=(Flag(), "Send server-sent events."),
        parallel_tool_calls=(Flag(), "false allows at most one call."),
    ),
    Parameter(
        "stream_options",
        Object(
            {
                "include_usage": Flag(),
                "continuous_usage_stats": Flag(),
                "include_obfuscation": Flag(),
                "toolgate_call_done": Flag(),
                "toolgate_trace": Flag(),
            }
        ),
        "Requires `stream`. `toolgate_call_done`: [end of each call](chat.md#end-of-a-call). "
        "`toolgate_trace`: [token trace](chat.md#token-trace).",
        members={
            "include_usage": "writer",
            "continuous_usage_stats": "writer.continuous_usage",
            "toolgate_call_done": "writer.call_done",
            "toolgate_trace": "extras.trace",
        },
        without_effect=("include_obfuscation",),
    ),
    Parameter(
        "response_format",
        RESPONSE_FORMAT_TYPE,
        "The type is text, json_object or json_schema. The schema, in `json_schema` or in "
        "`schema` beside one of the latter two types, is always enforced, beside tools, too.",
        without_effect=("json_schema.name", "json_schema.description", "json_schema.strict"),
    ),
    PROMPT_CACHE_KEY,
    Parameter(
        "reasoning",
        Object(
            {
                "effort": Choice(tuple(EFFORT_BUDGETS)),
                "max_tokens": Integer(1),
                "enabled": Flag(),
                "exclude": Flag(),
            }
        ),
        "Same as `reasoning_effort`, `reasoning_budget`, `enable_thinking`, and "
        "`include_reasoning: false`, which have precedence.",
        origin="OpenRouter",
        stands_for={
            "effort": "reasoning_effort",
            "max_tokens": "reasoning_budget",
            "enabled": "enable_thinking",
        },
    ),
    default_only("OpenAI", "modalities", ["text"], note="The output is text only."),
    *ignored("OpenAI", prompt_cache_options="vLLM manages the prefix cache."),
    *rejected(
        "OpenAI",
        audio="The output is text only.",
        moderation="Moderation is not built in.",
        prediction="Predicted outputs are not supported.",
        web_search_options="Web search is not built in. Offer it as a tool.",
    ),
)

PARAMETERS: tuple[Parameter, ...] = (*CHAT_COMPLETIONS, *SHARED)
BY_NAME = make_table(PARAMETERS)
NOT_IN_EXTRA_BODY = ("model", "messages", "stream", "extra_body")


def with_extra_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body with the fields of `extra_body`, which have precedence."""
    if "extra_body" not in body:
        return body
    extra = Fields(body).mapping("extra_body") or {}
    for name in NOT_IN_EXTRA_BODY:
        if name in extra:
            raise unknown(f"extra_body.{name}")
    return {name: value for name, value in body.items() if name != "extra_body"} | extra
