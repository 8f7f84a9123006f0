"""The parameter table of the Messages API. docs/api/parameters.md is generated from it by
`make docs`.

A parameter that the table does not have is an error: the gateway drops no parameter silently.
The defaults of a deployment, which are parameters of chat completions, are renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..shared.options import shared_rows
from ..shared.parameter import (
    Origin,
    Parameter,
    default_only,
    ignored,
    make_table,
    over_defaults,
    rejected,
    rows,
)
from ..shared.sampling import MAX_STOPS
from ..shared.tools import MAX_TOOLS, Mode
from ..shared.value_types import (
    Anything,
    Array,
    Choice,
    Flag,
    Integer,
    JsonObject,
    Object,
    Text,
    Texts,
)

ON_DEMAND = Object({"type": Choice(("summarize",)), "instructions": Text()}, required=("type",))
FORMAT_TYPE = Object(
    {
        "type": Choice(("json_schema",)),
        "name": Text(),
        "schema": JsonObject(),
        "strict": Flag(),
    },
    required=("type",),
)
EFFORTS = ("low", "medium", "high", "xhigh", "max")
MODES: dict[str, Mode] = {"auto": "auto", "any": "required", "none": "none"}
"""By the type of a choice that names no tool."""
CHOICE_TYPES = (*MODES, "tool")
CHOICE_KINDS = '"auto", "any" (a call is required), "tool" or "none"'
CHOICE = f"an object with the type {CHOICE_KINDS}"

OWN: tuple[Parameter, ...] = (
    *rows(
        "OpenAI",
        model=(Text(), "A model of the gateway or a LoRA adapter."),
        messages=(
            Anything("a non-empty array of messages"),
            "See [messages](messages.md#messages).",
        ),
        system=(
            Anything("a string or an array of text blocks"),
            "The first system message of the prompt.",
        ),
        tools=(Array("tools", MAX_TOOLS), "See [tools](messages.md#tools)."),
        tool_choice=(Anything(CHOICE), "`disable_parallel_tool_use` allows at most one call."),
        thinking=(
            Object(
                {
                    "type": Choice(("enabled", "adaptive", "disabled")),
                    "budget_tokens": Integer(1),
                    "display": Choice(("summarized", "updates", "omitted")),
                    "block_binding": JsonObject(),
                },
                required=("type",),
            ),
            "See [thinking](messages.md#thinking). enabled requires `budget_tokens`. "
            "`display` omitted leaves out the text; summarized and updates show it as it is. "
            "`block_binding` has no effect: thinking of another model or key is left out.",
        ),
        context_management=(
            Object({"edits": Array("edits", maximum=100)}),
            "See [context editing](messages.md#context-editing).",
        ),
        compaction=(
            ON_DEMAND,
            "The response is a summary alone ([context editing](messages.md#context-editing)).",
        ),
        mcp_servers=(
            Array("MCP servers", maximum=20),
            "[MCP servers](gateway.md#mcp-servers) of LiteLLM.",
        ),
    ),
    Parameter(
        "max_tokens",
        Integer(1),
        "Required. Includes thinking, and must allow a required call.",
        to="sampling",
    ),
    Parameter("stream", Flag(), "Send server-sent events.", to="request"),
    Parameter(
        "output_config",
        Object({"effort": Choice(EFFORTS), "format": FORMAT_TYPE}),
        "The schema of `format` is always enforced. `effort` is passed to the model's "
        "template, and sets the budget of thinking that has none.",
        without_effect=("format.name", "format.strict"),
    ),
    Parameter(
        "output_format",
        FORMAT_TYPE,
        "Same as `output_config.format`.",
        without_effect=("name", "strict"),
    ),
    Parameter(
        "stop_sequences",
        Texts(MAX_STOPS),
        "They end the text, not thinking or calls.",
        to="request.stop",
    ),
    Parameter(
        "user",
        Text(maximum=1024),
        "It identifies the end user.",
        origin="LiteLLM",
        support="ignored",
    ),
    Parameter(
        "metadata",
        Object({"user_id": Text(maximum=1024)}, extensible=True),
        "It identifies the end user.",
        support="ignored",
    ),
    Parameter(
        "service_tier",
        Choice(("auto", "standard_only")),
        "There is one tier, `standard`.",
        support="ignored",
    ),
    Parameter("cache_control", JsonObject(), "Prefix caching works without it.", support="ignored"),
    default_only("Anthropic", "speed", "standard", note="There is one speed."),
    *ignored(
        "Anthropic",
        anthropic_version="The API has one version.",
        diagnostics="Causes of cache misses are not known.",
        inference_geo="The operator chooses where the backends are.",
        user_profile_id="It is for the client's records.",
        workspace_id="API keys belong to teams instead.",
    ),
    *rejected(
        "Anthropic",
        billing_policy="Nothing is billed.",
        container="Containers are not supported.",
        fallback_credit_token="Nothing is billed.",  # noqa: S106
        thread="Conversations are not stored. Send all `messages`.",
    ),
)
OTHERS = (
    "stop",
    "thinking",
    "reasoning_effort",
    "logprobs",
    "top_logprobs",
    "logprob_token_ids",
    "return_tokens_as_token_ids",
    "echo",
)
"""Shared parameters that this API writes in another way, or for which its messages have no
field."""
NOTES = {
    "best_of": "Send several requests.",
    "guided_json": "Use `output_config.format`.",
    "include_reasoning": "Whether the response has thinking blocks, whatever `thinking` is.",
}
"""Notes of shared parameters in the words of this API."""
DOCUMENTED_BY_ANTHROPIC = ("temperature", "top_p", "top_k")


def _shared(row: Parameter) -> Parameter:
    note = NOTES.get(row.name, row.note)
    origin: Origin = "vLLM" if row.origin == "OpenAI" else row.origin
    if row.name in DOCUMENTED_BY_ANTHROPIC:
        origin = "Anthropic"
    return replace(row, note=note, origin=origin)


PARAMETERS: tuple[Parameter, ...] = (
    *(replace(row, origin="Anthropic") if row.origin == "OpenAI" else row for row in OWN),
    *(_shared(row) for row in shared_rows(OTHERS)),
)
BY_NAME = make_table(PARAMETERS)


RENAMED = {"max_completion_tokens": "max_tokens", "stop": "stop_sequences"}
NOT_TAKEN = ("tools", "tool_choice", "metadata")
EFFORT_OF = {"minimal": "low"}
"""By effort of chat completions: the effort of this API, if it is another one."""


def with_defaults(body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the defaults that it does not set, under the names of this API. Defaults that
    are of no use here are left out: `n`, `stream_options`, `functions` …"""
    merged: dict[str, Any] = {}
    for name, value in defaults.items():
        name = RENAMED.get(name, name)
        if name == "reasoning_effort":
            _set_effort(merged, value)
        elif name == "response_format":
            _set_format(merged, value)
        elif name == "stop_sequences":
            merged[name] = [value] if isinstance(value, str) else value
        elif name in BY_NAME and name not in NOT_TAKEN:
            merged[name] = value
    return over_defaults(body, merged, nested=("output_config",))


def _set_effort(merged: dict[str, Any], effort: Any) -> None:
    if effort == "none":
        merged.setdefault("thinking", {"type": "disabled"})
        return
    config = merged.setdefault("output_config", {})
    config["effort"] = EFFORT_OF.get(effort, effort)


def _set_format(merged: dict[str, Any], given: Any) -> None:
    """JSON without a schema is not a format of this API."""
    nested = given.get("json_schema") if isinstance(given, dict) else None
    if isinstance(nested, dict):
        config = merged.setdefault("output_config", {})
        config["format"] = {"type": "json_schema", "schema": nested.get("schema")}
    elif isinstance(given, dict) and given.get("type") == "json_object":
        merged["structured_outputs"] = {"json_object": True}
