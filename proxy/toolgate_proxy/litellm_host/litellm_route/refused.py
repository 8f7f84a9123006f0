"""What LiteLLM's route refuses: operations that Toolgate models do not support, and providers that
LiteLLM's configuration does not name.

LiteLLM has some fifty operations. It converts responses and messages to chat completions, and text
completions too, but several prompts to one conversation, and a call to no text. Others end in a 500
with a custom provider, or are sent to the backend unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import litellm
from litellm.proxy._types import LiteLLMRoutes
from litellm.types.llms.openai import ValidUserMessageContentTypes

from toolgate_core.errors import GatewayMisconfigured, InvalidRequest

from ..errors import PROVIDER
from ..proxy_server import litellm_proxy
from ..routing.router import is_foreign, is_toolgate, rows_of

UNSUPPORTED = {
    "create_batch": "batches",
    "create_fine_tuning_job": "fine-tuning",
    "create_video": "video generation",
    "embedding": "embeddings",
    "generate_content": "Google's generateContent",
    "generate_content_stream": "Google's generateContent",
    "image_edit": "image editing",
    "image_generation": "image generation",
    "image_variation": "image variations",
    "moderation": "moderation",
    "ocr": "OCR",
    "rerank": "reranking",
    "speech": "speech",
    "text_completion": "text completions",
    "transcription": "transcription",
    "video_generation": "video generation",
}
"""By LiteLLM's name of the operation, without the `a` of its asynchronous form."""


def check_operation(model: object, call_type: str) -> None:
    """Raise InvalidRequest for an unsupported operation of a model that has only Toolgate
    deployments. `call_type`: LiteLLM's name of the operation."""
    operation = UNSUPPORTED.get(call_type) or UNSUPPORTED.get(call_type.removeprefix("a"))
    if operation is not None and isinstance(model, str) and is_toolgate(model):
        raise unsupported(operation, model)


def unsupported(operation: str, model: str | None = None) -> InvalidRequest:
    """Return the error for an operation. `model`: the name in the request, if it is known."""
    which = f"The model {model!r} does not" if model is not None else "Toolgate models do not"
    return InvalidRequest(
        f"{which} support {operation}. Use chat completions, or a model of another provider.",
        param="model",
    )


USER_CONTENT_TYPES = frozenset(ValidUserMessageContentTypes)
"""Types of content parts in a user message that LiteLLM accepts."""
SECTIONS = (
    "assistant_settings",
    "files_settings",
    "finetune_settings",
    "search_tools",
    "vector_store_registry",
)
"""Sections of the configuration that name providers, at any depth."""
FIELDS = frozenset({"custom_llm_provider", "search_provider"})
NO_PROVIDERS = frozenset(
    {"bespoke", "comprehendmedical", "deepgram", "langfuse", "laya", "transcribe"}
)
PASS_THROUGH = frozenset(route[1:] for route in LiteLLMRoutes.mapped_pass_through_routes.value)
PASS_THROUGH_NAMES = {name for name in PASS_THROUGH - NO_PROVIDERS if "/" not in name}
"""What the paths of LiteLLM's routes that send any request to a provider begin with."""
NO_CREDENTIALS = re.compile(
    r"missing credentials|missing [\w ]{0,40}\bapi[ _]?key|api_key client option must be set", re.I
)
"""Messages of LiteLLM and of the clients of providers if a model has no credentials."""


def named_providers() -> frozenset[str]:
    """Return LiteLLM's names of the providers of models, and of the sections for other APIs."""
    providers = {_provider(row["litellm_params"]) for row in rows_of(None)}
    config: Mapping[str, Any] = litellm_proxy().proxy_config.get_config_state()
    for section in SECTIONS:
        providers |= {*_providers_in(config.get(section))}
    return frozenset(providers - {PROVIDER, ""})


def passed_through(path: str) -> bool:
    """Return whether the configuration has a target of its own for the path."""
    endpoints = litellm_proxy().general_settings.get("pass_through_endpoints") or ()
    prefixes = [each.get("path") for each in endpoints if isinstance(each, Mapping)]
    return any(isinstance(each, str) and path.startswith(each) for each in prefixes)


def without_credentials(model: str, message: str) -> GatewayMisconfigured | None:
    """Return the error for a model of another provider without configured credentials; None if
    `message` is of something else. LiteLLM blames itself, or the client's key."""
    if NO_CREDENTIALS.search(message) is None or not is_foreign(model):
        return None
    params = rows_of(model)[0]["litellm_params"]
    missing = litellm.validate_environment(model=params["model"])["missing_keys"]
    variables = " and ".join(missing) or "the provider's variables"
    return GatewayMisconfigured(
        f"The gateway has no credentials for the provider {_provider(params)!r} of the model "
        f"{model!r}, so nothing was sent. Set {variables} in the gateway's environment, or "
        "`api_key` in the model's `litellm_params` in the configuration.",
        param="model",
    )


def _provider(params: Mapping[str, Any]) -> str:
    """Return the provider of a deployment; "" if LiteLLM finds none."""
    configured = params.get("custom_llm_provider")
    if isinstance(configured, str):
        return configured
    if params["model"].startswith(f"{PROVIDER}/"):
        return PROVIDER
    try:
        _, provider, _, _ = litellm.get_llm_provider(
            model=params["model"], api_base=params.get("api_base")
        )
    except litellm.BadRequestError:
        return ""
    return str(provider)


def _providers_in(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            yield from (part[name] for name in FIELDS & part.keys() if isinstance(part[name], str))
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
