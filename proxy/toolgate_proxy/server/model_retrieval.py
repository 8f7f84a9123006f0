"""`GET /v1/models/{id}` and `GET /v1/models`, in OpenAI's and in Anthropic's form, and LiteLLM's
`GET /v1/model/info` and `GET /model_group/info`.

LiteLLM's own handler refuses virtual keys for a single model (its list of routes for ordinary keys
has the list only), has no ids with slashes, and does not know the context length. The list in
OpenAI's form is LiteLLM's if it has wildcards or aliases, or if the request has a query: LiteLLM
resolves them. For keys of another authentication than ours, LiteLLM's list says which models the
key may use. LiteLLM's lists of deployments have the addresses of backends; only administrators get
them.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from ..api.surfaces import MESSAGES, surface_of
from ..background import without_owner
from ..context import MATCH, RequestContext
from ..keys.key import Key
from ..litellm_host import auth
from ..litellm_host.auth import may_use, model_and_sender, model_not_found, not_among, usable_models
from ..litellm_host.routing.router import (
    PRICES,
    Row,
    Sender,
    has_plain_names,
    placement_of,
    rows_of,
)
from ..routing.deployments import Deployment
from ..state import gateway
from .authorization import authorize
from .forwarding import Forwarding

PATH = re.compile(r"(?:/v1)?/models(?:/(?P<id>.+))?", re.DOTALL)
INFO = re.compile(r"(?:/v1)?/model/info|/model_group/info")
SHOWN = {"model", "custom_llm_provider", "rpm", "tpm", "tags", *PRICES}
"""Fields of `litellm_params` that every key may see."""
CAPABLE = (
    *("supports_function_calling", "supports_parallel_function_calling"),
    *("supports_response_schema", "supports_tool_choice"),
)
"""What every Toolgate model can do. LiteLLM says no."""
CREATED = 1677610602
"""The time that LiteLLM's list has for every model, in seconds since 1970."""
STARTED = int(time.time())
"""The time of Toolgate models: when this process started to serve them."""
WINDOW = ("max_model_len", "context_length", "context_window", "max_input_tokens")
"""The names of the context length that clients read: vLLM's, OpenRouter's, Groq's, LiteLLM's."""
OUTPUT_SHARE = 8
MAX_OUTPUT = 32_000
"""`max_output_tokens` is an eighth of the context, at most this number of tokens. Some clients
reserve it for the response. Prompt and response share the context, so there is no other maximum."""
ASK_SECONDS = 1.0
"""Longest wait for backends that have not responded yet."""


async def answer(litellm: Forwarding, scope: Scope, context: RequestContext) -> Response | None:
    """Answer a request for models, or return None if LiteLLM answers it. Raise ToolgateError."""
    model = scope[MATCH]["id"]
    anthropic = surface_of(scope["path"], Headers(scope=scope)) is MESSAGES
    if not auth.is_ours():
        await authorize(scope, context)
        return await _of_litellm(litellm, scope, context, model)
    if model is None and not anthropic and (scope.get("query_string") or not has_plain_names()):
        return None
    await authorize(scope, context)
    names = await _names(model, context.caller.key)
    await _ask_backends([row for name in names for row in rows_of(name)])
    entries = [(_model_info if anthropic else _model)(name) for name in names]
    if model is not None:
        return JSONResponse(entries[0])
    if not anthropic:
        return JSONResponse({"object": "list", "data": entries})
    # One page has all models, whatever the query asks for.
    first, last = (entries[0]["id"], entries[-1]["id"]) if entries else (None, None)
    ends = {"has_more": False, "first_id": first, "last_id": last}
    return JSONResponse({"data": entries, **ends})


async def info(litellm: Forwarding, scope: Scope, context: RequestContext) -> Response:
    """Return LiteLLM's deployments or model groups that the key may use. Raise ToolgateError."""
    await authorize(scope, context)
    response = await litellm.answered(scope, context)
    listed = json.loads(bytes(response.body)) if response.status_code == 200 else None
    if not isinstance(listed, dict) or not isinstance(listed.get("data"), list):
        return response
    _, sender = await model_and_sender("", context.caller)
    named = [
        (str(each.get("model_name") or each.get("model_group")), each) for each in listed["data"]
    ]
    key = context.caller.key
    allowed = [(name, each) for name, each in named if await may_use(key, name)]
    await _ask_backends([row for name, _ in allowed for row in rows_of(name, sender)])
    return JSONResponse({**listed, "data": [_described(*each, sender) for each in allowed]})


def _described(name: str, entry: dict[str, Any], sender: Sender) -> dict[str, Any]:
    """Add the context length to an entry of a Toolgate model, and remove addresses and settings."""
    rows = _ours(name, sender)
    known: dict[str, Any] = dict.fromkeys(CAPABLE, True) if rows else {}
    if (window := _window(rows)) is not None:
        known |= {"max_input_tokens": window, "max_output_tokens": _output(window)}
        known["max_tokens"] = known["max_output_tokens"]
    if "litellm_params" not in entry:
        return {**entry, **{each: known[each] for each in known if each in entry}}
    params = entry["litellm_params"]
    if not sender.is_administrator:
        params = {field: value for field, value in params.items() if field in SHOWN}
    about = {**(entry.get("model_info") or {}), **known}
    return {**entry, "litellm_params": params, "model_info": about}


async def _names(model: str | None, key: Key | None) -> list[str]:
    """Return the model that a path names, or all that the key may use, in the order of the
    configuration. Aliases and names that a wildcard matches count as models. Raise
    ModelNotFound."""
    if model is None:
        usable = await usable_models(key)
        configured = dict.fromkeys(row["model_name"] for row in rows_of(None))
        return [name for name in configured if name in usable]
    if not rows_of(model) or not await may_use(key, model):
        raise await model_not_found(model, key)
    return [model]


async def _of_litellm(
    litellm: Forwarding, scope: Scope, context: RequestContext, model: str | None
) -> Response:
    """Return LiteLLM's list, or one model of it, with our context lengths. Raise ModelNotFound."""
    if model is not None:
        path = scope["path"][: -len(model) - 1]
        scope = {**scope, "path": path, "raw_path": path.encode(), "query_string": b""}
    response = await litellm.answered(scope, context)
    listed = json.loads(bytes(response.body)) if response.status_code == 200 else None
    if not isinstance(listed, dict) or not isinstance(listed.get("data"), list):
        return response
    _, sender = await model_and_sender("", context.caller)
    entries = {each["id"]: each for each in listed["data"]}
    if model is not None and model not in entries:
        raise not_among([*entries], model)
    names = [*entries] if model is None else [model]
    await _ask_backends([row for name in names for row in rows_of(name, sender)])
    completed = [_completed(entries[name], sender) for name in names]
    return JSONResponse({**listed, "data": completed} if model is None else completed[0])


def _completed(entry: dict[str, object], sender: Sender) -> dict[str, object]:
    """Add what LiteLLM does not know of our models to an entry of its list, in its form."""
    rows = _ours(str(entry["id"]), sender)
    if not rows:
        return entry
    return {**entry, **(_of_ours if entry.get("object") == "model" else _window_of_ours)(rows)}


def _model(model: str) -> dict[str, object]:
    """Show a model in OpenAI's form."""
    entry: dict[str, object] = {"id": model, "object": "model", "created": CREATED}
    if not (rows := _ours(model)):
        return {**entry, "owned_by": "openai"}  # as LiteLLM shows it
    return entry | _of_ours(rows)


def _of_ours(rows: Sequence[Row]) -> dict[str, object]:
    """Return the fields of a Toolgate model in OpenAI's form."""
    fields: dict[str, object] = {"created": STARTED, "owned_by": "toolgate"}
    if (window := _window(rows)) is not None:
        fields |= dict.fromkeys(WINDOW, window) | {"max_output_tokens": _output(window)}
    return fields


def _model_info(model: str) -> dict[str, object]:
    """Show a model in Anthropic's form."""
    created = datetime.fromtimestamp(CREATED, UTC).isoformat().replace("+00:00", "Z")
    return {
        "type": "model",
        "id": model,
        "display_name": model,
        "created_at": created,
        "lifecycle": "active",
        **_window_of_ours(_ours(model)),
    }


def _window_of_ours(rows: Sequence[Row]) -> dict[str, object]:
    """Return the context length in Anthropic's form."""
    window = _window(rows)
    return {"max_input_tokens": window, "max_tokens": None if window is None else _output(window)}


def _window(rows: Sequence[Row]) -> int | None:
    """Return the context length in tokens, the smallest of a model's deployments. None for models
    of other providers, and if no backend has responded and no deployment declares it."""
    return min((each for each in map(_window_of, rows) if each is not None), default=None)


def _window_of(row: Row) -> int | None:
    """Return what the backend has reported, otherwise what `model_info` declares."""
    if (info := _deployment(row).backend.last_info) is not None:
        return info.limits.max_model_len
    declared = (row.get("model_info") or {}).get("max_input_tokens")
    return declared if isinstance(declared, int) else None


async def _ask_backends(rows: Sequence[Row]) -> None:
    """Ask the backends of these deployments that have not responded yet, but not those that are
    down. An error leaves the context length unknown."""
    deployments = [_deployment(row) for row in rows if placement_of(row) is not None]
    unknown = {
        each.backend
        for each in deployments
        if each.backend.last_info is None and not each.state.is_down
    }
    if not unknown:
        return
    asking = [asyncio.create_task(backend.info()) for backend in unknown]
    for task in asking:
        without_owner(task)
    await asyncio.wait(asking, timeout=ASK_SECONDS)


def _ours(model: str, sender: Sender | None = None) -> list[Row]:
    """Return the Toolgate deployments of a model."""
    return [row for row in rows_of(model, sender) if placement_of(row) is not None]


def _deployment(row: Row) -> Deployment:
    place = placement_of(row)
    assert place is not None
    return gateway().deployments.at(place)


def _output(window: int) -> int:
    return min(window // OUTPUT_SHARE, MAX_OUTPUT)
