"""Routes that the gateway does not have, and what to do instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import Scope

from toolgate_core.errors import RouteClosed, RouteNotFound, ToolgateError

from ..litellm_host import auth
from ..litellm_host.providers import named_providers, passed_through

BATCHES = re.compile(r"/v1/messages/batches(?:/.*)?", re.DOTALL)
"""Neither our models nor LiteLLM's route for other models have batches of messages."""
API = r"/(?:chat/completions|completions|embeddings|messages(?:/count_tokens)?|responses|models)"
REPEATED = re.compile(
    rf"(?P<extra>/v1(?:{API})?)(?P<path>/v1{API})|(?P<first>/v1(?P<again>{API}))(?P=again)"
)
"""Paths of clients whose base URL has a part of the path that they add themselves."""
DATABASE = re.compile(
    r"(?:/v2)?/(?:budget|customer|end_user|global|invitation|key|organization|project|spend|tag"
    r"|team|user)/(?!health$|calculate$|metadata_schema$).*",
    re.DOTALL,
)
"""LiteLLM's routes that need its database, where they end in errors of several kinds without it."""

SETTINGS = {
    "files": "`files_settings`",
    "batches": "`files_settings`",
    "fine_tuning": "`finetune_settings`",
    "vector_stores": "`vector_store_registry`",
    "assistants": "`assistant_settings`",
    "threads": "`assistant_settings`",
}
"""By kind of route: the section of LiteLLM's configuration that names its provider. For others, it
is `model_list`."""
DEFAULTS = {"skills": "anthropic", "interactions": "gemini"}
"""By kind of route: LiteLLM's default provider. That of others is OpenAI."""
OF_PROVIDER = re.compile(
    r"(?:/(?P<provider>[\w.-]+)/v1|/v1(?:beta)?)?/(?P<kind>assistants|batches"
    r"|containers|evals|files|fine_tuning|interactions|moderations|rag|skills|threads"
    r"|vector_stores|videos)(?:/.*)?",
    re.DOTALL,
)
"""LiteLLM's routes that reach a provider without the name of a model."""
PASSED_THROUGH = re.compile(
    r"/(?P<provider>anthropic|assemblyai|azure|azure_ai|azure_speech|bedrock|cohere|cursor|eu\.assemblyai|fal_ai"
    r"|gemini|gigachat|milvus|mistral|nvidia_nim|openai|openai_passthrough|openrouter|tinyfish|typesafe|vertex-ai"
    r"|vertex_ai|vllm|watsonx)/(?!deployments/|v1/(?:realtime|responses)|(?:v1/)?models$"
    r"|chat/completions$).*",
    re.DOTALL,
)
"""LiteLLM's routes that send any request to a provider, except those with a model's name."""
ALIASES = {
    "azure_speech": "azure",
    "eu.assemblyai": "assemblyai",
    "openai_passthrough": "openai",
    "vertex-ai": "vertex_ai",
    "vllm": "hosted_vllm",
}
"""By name in a path: LiteLLM's name of the provider."""
IN_BODY = re.compile(rb'\bcustom_llm_provider"\s*:?\s*"?([\w.-]+)')
"""The provider in a body of JSON or of a form."""


@dataclass(frozen=True)
class Repeated:
    """A path that repeats a part of the base URL."""

    path: str
    """The path that was meant."""
    extra: str
    """The end of the base URL that is too much."""

    def error(self) -> ToolgateError:
        return RouteNotFound(
            f"There is no such route. The client adds {self.path!r} or its end to its base URL. "
            f"Remove {self.extra!r} from the end of the base URL."
        )


def repeated_path(path: str) -> Repeated | None:
    found = REPEATED.fullmatch(path)
    if found is None:
        return None
    if found["first"]:
        return Repeated(found["first"], found["again"])
    return Repeated(found["path"], found["extra"])


def batches(path: str) -> ToolgateError | None:
    if BATCHES.fullmatch(path) is None:
        return None
    return RouteClosed(
        "Message batches are not supported. Send each request to POST /v1/messages; limits of the "
        "API key allow several at once."
    )


def without_database(path: str) -> ToolgateError | None:
    """The error for a route that needs LiteLLM's database, if there is none."""
    if DATABASE.fullmatch(path) is None or auth.has_database():
        return None
    return RouteNotFound(
        "This route needs LiteLLM's database, which this gateway does not have. `toolgate keys` "
        "creates, lists and limits virtual keys, with teams."
    )


def without_provider(scope: Scope, path: str, body: bytes = b"") -> ToolgateError | None:
    """The error for a route of LiteLLM that would reach a provider which the configuration does not
    name. LiteLLM would take the provider's address and key from its defaults and the environment.
    """
    found = OF_PROVIDER.fullmatch(path) or PASSED_THROUGH.fullmatch(path)
    if found is None or passed_through(path):
        return None
    kind = found.groupdict().get("kind") or ""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    asked = [
        found["provider"],
        *query.get("custom_llm_provider", ()),
        *query.get("provider", ()),
        Headers(scope=scope).get("custom-llm-provider"),
        *(each.decode() for each in IN_BODY.findall(body)),
    ]
    wanted = {ALIASES.get(each, each) for each in asked if each}
    missing = (wanted or {DEFAULTS.get(kind, "openai")}) - named_providers()
    if not missing:
        return None
    settings = SETTINGS.get(kind, "`model_list`, with a model of this provider")
    return RouteNotFound(
        f"This route of LiteLLM needs the provider {min(missing)!r}, which the gateway's "
        f"configuration does not name, so nothing was sent. Configure the provider in {settings}, "
        "as LiteLLM's documentation describes. Toolgate models do not have this API."
    )
