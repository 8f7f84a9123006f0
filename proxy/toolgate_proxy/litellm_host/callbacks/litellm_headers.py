"""The headers in which LiteLLM describes a response: the deployment, what it cost, and what is left
of budgets and limits. LiteLLM's own code makes them.

LiteLLM knows the cost and the duration only of whole responses, and counts the limits of a key for
them. Of a stream it describes what is known when it begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import litellm
from litellm.proxy.common_request_processing import ProxyBaseLLMRequestProcessing

from ..deployments.router import router
from .request_data import RequestData

HIDDEN = "_hidden_params"
"""Where LiteLLM keeps what it knows of a response, in an object or a dict."""
UNSENT = frozenset(
    ("content-length", "content-type", "content-encoding", "transfer-encoding", "connection")
) | {"set-cookie", "retry-after"}
"""Headers of exceptions that are not sent: they are of another response, or are sent anyway."""
LIMITER = "litellm.proxy.hooks.parallel_request_limiter"
"""What the module of LiteLLM's callback that counts the limits of a key begins with."""


async def litellm_headers(data: RequestData, model: str, response: Any = None) -> dict[str, str]:
    """Return the headers. `model`: its name in the router. `response`: LiteLLM's object of a whole
    response; None: of a stream, or of an error."""
    prepared = await data.prepared()
    described: dict[str, Any] = {HIDDEN: dict(getattr(response, HIDDEN, None) or {})}
    row = data.row
    if row is not None:
        await router().set_response_headers(described, model_group=model)
    for limiter in litellm.callbacks if response is not None else ():
        if type(limiter).__module__.startswith(LIMITER):
            await limiter.async_post_call_success_hook(
                data=prepared, user_api_key_dict=data.caller, response=described
            )
    hidden = described[HIDDEN]
    named = dict(hidden.get("additional_headers") or {})
    if row is not None:
        named["x-litellm-model-name"] = row["litellm_params"]["model"]
        named["x-litellm-attempted-fallbacks"] = data.context.attempted_fallbacks
    made: dict[str, str] = ProxyBaseLLMRequestProcessing.get_custom_headers(
        user_api_key_dict=data.caller,
        call_id=data.context.call_id,
        model_id=model_id_of(row) if row is not None else None,
        version=version("litellm"),
        response_cost=hidden.get("response_cost") or "",
        hidden_params=hidden,
        request_data=prepared,
        litellm_logging_obj=data.logging if response is not None else None,
        **named,
    )
    return made


def headers_of(error: BaseException | None) -> dict[str, str]:
    """Return the headers that an exception of LiteLLM or of a callback has for the response."""
    held = getattr(error, "headers", None)
    given = held if isinstance(held, Mapping) else {}
    return {name: str(value) for name, value in given.items() if name.lower() not in UNSENT}


def model_id_of(row: Any) -> str | None:
    """Return LiteLLM's id of a deployment."""
    found = (row.get("model_info") or {}).get("id")
    return None if found is None else str(found)
