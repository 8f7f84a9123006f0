"""Checks of request bodies on LiteLLM's route, before LiteLLM reads them.

LiteLLM reads its own settings from request bodies: `api_base`, `mock_response`, `fallbacks`,
`tags`, `no-log` … It rejects some of them. This module rejects all of them
(litellm_host/control_fields.py). A chat request for one of our models may contain only known
parameters. LiteLLM also reads fields of messages and tools before it validates them; a string
among the messages ends in a response that contains a traceback. So this module checks the types of
those fields, as OpenAI's API defines them, for every provider.
"""

from __future__ import annotations

import re
from typing import Any

from toolgate_core.errors import InvalidRequest, ModelNotFound, UnsupportedParameter

from ..api.shared.parameter import CHAT_TABLE, unknown
from ..litellm_host.control_fields import is_banned, is_control
from ..litellm_host.litellm_route.refused import USER_CONTENT_TYPES
from ..litellm_host.routing.model_route import litellms_reason
from ..litellm_host.routing.router import Sender, is_foreign, rows_of
from ..request_fields import Fields, invalid_value

NESTED = ("extra_body", "litellm_params")
"""Objects whose fields LiteLLM merges into the request."""
CHAT = "/chat/completions"
PLAIN_CHAT = (CHAT, f"/v1{CHAT}")
"""Paths without a model. LiteLLM prefers a model in the path to the one in the body."""
BRIDGED = {
    "Responses API": re.compile(r"(?:(?:/openai)?/v1)?/responses(?:/(?:input_tokens|compact))?/?"),
    "Messages API": re.compile(r"/v1/messages(?:/count_tokens)?/?"),
}
"""The APIs that LiteLLM converts to chat completions, and their paths. At other paths with such an
end, such as `/azure/openai/responses`, it passes the body on to a provider."""
PATHS = (CHAT, "/completions", "/responses", "/messages", "/embeddings")
"""Endings of the paths whose body names a model."""
STREAM_OPTIONS = (
    "include_usage",
    "continuous_usage_stats",
    "include_obfuscation",
    "toolgate_call_done",
    "toolgate_trace",
)


def is_guarded(path: str) -> bool:
    return CHAT in path or path.rstrip("/").endswith(PATHS)


def check(path: str, values: dict[str, Any], sender: Sender | None = None) -> None:
    """Check a body of a `sender`, if it is known. Raise InvalidRequest, UnsupportedParameter."""
    check_controls(values)
    if CHAT in path:
        check_model(path, values, sender)
        check_shape(values)
    for api, paths in BRIDGED.items():
        if paths.fullmatch(path):
            check_bridged(values, api, sender)


def check_controls(values: dict[str, Any]) -> None:
    """Raise UnsupportedParameter for fields that are settings of LiteLLM."""
    fields = [(name, name) for name in values]
    for outer in NESTED:
        inner = values.get(outer)
        if isinstance(inner, dict):
            fields += [(f"{outer}.{name}", name) for name in inner]
    metadata = values.get("metadata")
    banned = [name for name in metadata if is_banned(name)] if isinstance(metadata, dict) else []
    fields += [(f"metadata.{name}", name) for name in banned]
    for path, name in fields:
        if is_control(name):
            raise UnsupportedParameter(
                f"{path!r} cannot be set per request. Remove it.", param=path
            )


def check_model(path: str, values: dict[str, Any], sender: Sender | None = None) -> None:
    """Check that the request names one model, and for our models that all fields are known.

    LiteLLM would call each of several models and count one, and it obeys unknown fields. Raise
    InvalidRequest and UnsupportedParameter."""
    model = Fields(values).text("model") or ""
    if "," in model + path:
        message = "'model' must name one model. Send one request per model."
        raise InvalidRequest(message, param="model")
    spread = Fields(values).mapping("extra_body") or {}
    fields = [*((name, values[name]) for name in values if name != "extra_body"), *spread.items()]
    further = [name for name, value in fields if value is not None and name not in CHAT_TABLE]
    if further and not (path in PLAIN_CHAT and is_foreign(model, sender)):
        raise unknown(further[0], CHAT_TABLE)


def check_shape(values: dict[str, Any]) -> None:
    """Check the types of a chat request's fields. Raise InvalidRequest."""
    fields = Fields(values)
    fields.text("model")
    fields.flag("stream")
    for at, message in enumerate(_objects(fields, "messages")):
        _check_message(message, f"messages[{at}]")
    _objects(fields, "tools")
    _objects(fields, "functions")
    fields.mapping("response_format")
    fields.mapping("extra_headers")
    options = Fields(fields.mapping("stream_options") or {}, "stream_options")
    for name in STREAM_OPTIONS:
        options.flag(name)  # LiteLLM silently drops invalid options


def check_bridged(values: dict[str, Any], api: str, sender: Sender | None = None) -> None:
    """Refuse a Responses or Messages request, unless all deployments of its model are another
    provider's.

    LiteLLM converts it to a chat request and back. A call that the maximum number of tokens cut
    would come back as complete or as an error, and parameters are dropped. LiteLLM finds models by
    more names than the router lists, so an unknown name is refused as well. Raise InvalidRequest,
    ModelNotFound and UnsupportedParameter."""
    model = Fields(values).text("model")
    if not model:
        raise invalid_value("model", "the name of a model", model)
    if is_foreign(model, sender):
        return
    if not rows_of(model, sender):
        raise ModelNotFound(f"The model {model!r} does not exist.", param="model")
    raise UnsupportedParameter(
        f"Requests for {model!r} take LiteLLM's route ({litellms_reason(model, sender)}), on which "
        f"the {api} cannot be served. Use /v1/chat/completions.",
        param="model",
    )


def _check_message(message: dict[str, Any], param: str) -> None:
    fields = Fields(message, param)
    role = fields.text("role")
    if role is None:
        raise fields.wrong("role", "a string")
    _objects(fields, "tool_calls")
    content = message.get("content")
    if isinstance(content, list):
        for at, part in enumerate(_objects(fields, "content")):
            kind = part.get("type")
            if role == "user" and kind not in USER_CONTENT_TYPES:
                raise Fields(part, f"{param}.content[{at}]").wrong("type", "a known content type")
    else:
        fields.text("content")


def _objects(fields: Fields, name: str) -> list[dict[str, Any]]:
    items = fields.items(name) or []
    for at, item in enumerate(items):
        if not isinstance(item, dict):
            raise invalid_value(f"{fields.path(name)}[{at}]", "an object", item)
    return items
