"""The operations of our own API, as the reference shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from ..admin.keys import KeyList
from ..admin.routes import (
    PrewarmRequest,
    PrewarmResponse,
    SchemaRequest,
    SchemaResponse,
    ToolsRequest,
    ToolsResponse,
)
from ..admin.status import Status
from ..api.chat_completions.parameters import BY_NAME as CHAT_COMPLETIONS
from ..api.messages.parameters import BY_NAME as MESSAGES
from ..api.responses.parameters import BY_NAME as RESPONSES
from ..api.shared.parameter import Table

Access = Literal["any key", "master key", "none"]


@dataclass(frozen=True)
class Operation:
    method: Literal["get", "post", "delete"]
    path: str
    tag: str
    summary: str
    access: Access = "any key"
    """The key that it requires."""
    body: Table | type[BaseModel] | None = None
    required: tuple[str, ...] = ()
    """Names of the parameters that a body must have, if it is a table."""
    response: type[BaseModel] | None = None
    """None: the summary says whose form it has."""
    events: bool = False
    """Whether the body's `stream` asks for server-sent events."""
    media_type: str = "application/json"


TAGS: Mapping[str, str] = {
    "Chat completions": "OpenAI's chat completions API.",
    "Responses": "OpenAI's Responses API.",
    "Messages": "Anthropic's Messages API.",
    "Models": "The models that a key may use.",
    "Administration": "For the holder of the master key.",
    "Health": "For load balancers and orchestrators.",
}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "post",
        "/v1/chat/completions",
        "Chat completions",
        "Create a chat completion. Its calls are enforced.",
        body=CHAT_COMPLETIONS,
        required=("model", "messages"),
        events=True,
    ),
    Operation(
        "post",
        "/v1/responses",
        "Responses",
        "Create a response.",
        body=RESPONSES,
        required=("model", "input"),
        events=True,
    ),
    Operation(
        "post",
        "/v1/responses/input_tokens",
        "Responses",
        "Count the tokens of a request's input.",
        body=RESPONSES,
        required=("model", "input"),
    ),
    Operation(
        "post",
        "/v1/responses/compact",
        "Responses",
        "Compact a conversation.",
        body=RESPONSES,
        required=("model",),
    ),
    Operation("get", "/v1/responses/{id}", "Responses", "Retrieve a stored response."),
    Operation("delete", "/v1/responses/{id}", "Responses", "Delete a stored response."),
    Operation(
        "post",
        "/v1/responses/{id}/cancel",
        "Responses",
        "Cancel a response of the background.",
    ),
    Operation(
        "get",
        "/v1/responses/{id}/input_items",
        "Responses",
        "List the input items of a stored response.",
    ),
    Operation(
        "post",
        "/v1/messages",
        "Messages",
        "Create a message.",
        body=MESSAGES,
        required=("model", "messages", "max_tokens"),
        events=True,
    ),
    Operation(
        "post",
        "/v1/messages/count_tokens",
        "Messages",
        "Count the tokens of a message's prompt.",
        body=MESSAGES,
        required=("model", "messages"),
    ),
    Operation("get", "/v1/models", "Models", "List the models, in OpenAI's form."),
    Operation("get", "/v1/models/{id}", "Models", "Retrieve one model."),
    Operation(
        "get",
        "/toolgate/status",
        "Administration",
        "Models, their backends, recent requests and limits of this gateway process.",
        access="master key",
        response=Status,
    ),
    Operation(
        "get",
        "/toolgate/keys",
        "Administration",
        "Virtual keys, their limits and their use today.",
        access="master key",
        response=KeyList,
    ),
    Operation(
        "post",
        "/toolgate/schema",
        "Administration",
        "Report which keywords of tools' schemas masks enforce and which are only validated.",
        access="master key",
        body=SchemaRequest,
        response=SchemaResponse,
    ),
    Operation(
        "post",
        "/toolgate/prewarm",
        "Administration",
        "Compile the grammars of tools before the first request needs them.",
        access="master key",
        body=PrewarmRequest,
        response=PrewarmResponse,
    ),
    Operation(
        "post",
        "/toolgate/tools",
        "Administration",
        "Convert tools of OpenAI, Anthropic and MCP to those of chat completions.",
        access="master key",
        body=ToolsRequest,
        response=ToolsResponse,
    ),
    Operation(
        "post",
        "/toolgate/unconstrained",
        "Administration",
        "Generate without enforcement, for comparison, and report where the response is broken.",
        access="master key",
        body=CHAT_COMPLETIONS,
        required=("model", "messages"),
        media_type="text/event-stream",
    ),
    Operation(
        "get",
        "/toolgate/metrics",
        "Administration",
        "Metrics in Prometheus' text format. TOOLGATE_METRICS_TOKEN is accepted, too.",
        access="master key",
        media_type="text/plain",
    ),
    Operation(
        "get",
        "/toolgate/ready",
        "Health",
        "200 once the gateway can serve a model, and 503 before.",
        access="none",
    ),
    Operation(
        "get",
        "/toolgate/ready/{model}",
        "Health",
        "200 while a backend of the model responds, 503 otherwise, 404 for an unknown model.",
        access="none",
    ),
    Operation(
        "get",
        "/health/liveliness",
        "Health",
        "200 while the process responds.",
        access="none",
    ),
)
