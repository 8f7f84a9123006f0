"""The parameter table of chat completions. `make docs` generates docs/api/parameters.md from it.

A parameter that the table does not have is an error: the gateway drops no parameter silently.
"""

from __future__ import annotations

from ..shared.collection_types import Array, Object
from ..shared.content_format import CONTENT_FORMAT, RESPONSE_FORMAT_TYPE
from ..shared.options import OPTIONS, PROMPT_CACHE_KEY, UNSUPPORTED
from ..shared.parameter import Parameter, default_only, ignored, make_table, rejected
from ..shared.sampling import SAMPLING
from ..shared.template import EFFORT_BUDGETS, REASONING, TEMPLATE
from ..shared.tools import MAX_TOOLS, TOOL_CHOICES
from ..shared.value_types import Anything, Choice, Flag, Integer, Text

CHAT_COMPLETIONS: tuple[Parameter, ...] = (
    Parameter("model", Text(), note="A model of the gateway or a LoRA adapter."),
    Parameter(
        "messages",
        Anything("a non-empty array of messages"),
        note="See [messages](chat.md#messages).",
    ),
    Parameter(
        "n",
        Integer(1, 128),
        sampling="n",
        note="Number of choices. More than 1 also works with a temperature of 0.",
    ),
    Parameter(
        "max_tokens",
        Integer(1),
        sampling="max_tokens",
        note="Maximum number of tokens, reasoning included. It must allow a required call.",
    ),
    Parameter(
        "max_completion_tokens",
        Integer(1),
        sampling="max_tokens",
        note="Same as `max_tokens`, over which it has precedence.",
    ),
    Parameter("stream", Flag(), request="stream", note="Send the response as server-sent events."),
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
        members={
            "include_usage": "include_usage",
            "continuous_usage_stats": "continuous_usage",
            "toolgate_call_done": "call_done",
            "toolgate_trace": "trace",
        },
        note="Requires `stream`. `toolgate_call_done` marks "
        "the [end of each call](chat.md#end-of-a-call). `toolgate_trace` adds a "
        "[trace of the tokens](chat.md#token-trace), for the master key.",
        without_effect=("include_obfuscation",),
    ),
    Parameter(
        "tools",
        Array("tools", MAX_TOOLS),
        note="Functions, [custom tools](custom-tools.md) and [MCP servers](chat.md#mcp-servers). "
        "`strict: true` rejects a schema that can't be enforced completely.",
    ),
    Parameter(
        "tool_choice",
        Anything(TOOL_CHOICES),
        note="The object has the type `function`, `custom` or `allowed_tools`.",
    ),
    Parameter(
        "parallel_tool_calls",
        Flag(),
        request="parallel_tool_calls",
        note="false allows at most one call.",
    ),
    Parameter(
        "functions",
        Array("functions"),
        note="Deprecated form of `tools`. The response has at most one call, as `function_call`.",
    ),
    Parameter(
        "function_call",
        Anything('"none", "auto" or an object with a name'),
        note="Deprecated form of `tool_choice`.",
    ),
    Parameter(
        "response_format",
        RESPONSE_FORMAT_TYPE,
        note="The type is text, json_object or json_schema. The schema is in `json_schema`, or "
        "in `schema` beside one of the latter two types. It is always enforced, beside tools, too.",
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
        origin="OpenRouter",
        stands_for={
            "effort": "reasoning_effort",
            "max_tokens": "reasoning_budget",
            "enabled": "enable_thinking",
        },
        note="Same as `reasoning_effort`, `reasoning_budget`, `enable_thinking`, and "
        "`include_reasoning: false`, which have precedence.",
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

PARAMETERS: tuple[Parameter, ...] = (
    *CHAT_COMPLETIONS,
    *SAMPLING,
    *REASONING,
    *TEMPLATE,
    *CONTENT_FORMAT,
    *OPTIONS,
    *UNSUPPORTED,
)
BY_NAME = make_table(PARAMETERS)
