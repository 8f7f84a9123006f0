"""LiteLLM's own callbacks that see a request or its response, except for guardrails."""

import inspect
import pkgutil
from contextlib import suppress
from functools import cache
from importlib import import_module

import litellm
from litellm.caching.dual_cache import DualCache
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy.utils import InternalUsageCache

PACKAGES = ("litellm.integrations", "litellm.proxy.hooks", "litellm.router_utils.pre_call_checks")
HOOKS = frozenset(
    name
    for name in vars(CustomLogger)
    if name.startswith("async_") and not name.startswith(("async_log_", "async_service_"))
)
NOT_RUN = frozenset({
    # They only send to services.
    "AgentOps", "ArizeLogger", "ArizePhoenixLogger", "DataDogLogger",
    "LangfuseContentOpenTelemetryV2", "LevoLogger", "LangfuseOpenTelemetryV2",
    "LangfuseOtelLogger", "OpenTelemetry", "OpenTelemetryV2", "WeaveOtelLogger",
    # They need a service or a missing package.
    "BitBucketPromptManager", "GenericPromptManager", "GitLabPromptManager",
    "LangfusePromptManagement", "SemanticToolFilterHook", "_PROXY_AzureContentSafety",
    # They send requests to LiteLLM's route, which is tested on its own.
    "CodeInterpreterInterceptionLogger", "CompressionInterceptionLogger",
    # They are for batches, and for several deployments of LiteLLM's router.
    "_PROXY_BatchRateLimiter", "DeploymentAffinityCheck",
})  # fmt: skip


def _derived(kind):
    for each in kind.__subclasses__():
        yield each
        yield from _derived(each)


def hooking():
    """Return the classes that have a hook of their own, by name."""
    for package in PACKAGES:
        found = import_module(package)
        for module in pkgutil.walk_packages(found.__path__, f"{package}."):
            with suppress(Exception):  # of a package that is not installed
                import_module(module.name)
    return {
        kind.__name__: kind
        for kind in _derived(CustomLogger)
        if kind.__module__.startswith(PACKAGES) and not issubclass(kind, CustomGuardrail)
        if any(getattr(kind, name) is not getattr(CustomLogger, name) for name in HOOKS)
    }


def _given(parameter):
    """Return what a constructor demands: one of LiteLLM's two kinds of caches, or None."""
    if "cache" not in parameter.name:
        return None
    ours = DualCache()
    return ours if "DualCache" in str(parameter.annotation) else InternalUsageCache(ours)


@cache
def make(kind):
    """Return the one instance with what its constructor demands."""
    demanded = inspect.signature(kind).parameters.values()
    made = kind(
        **{
            each.name: _given(each)
            for each in demanded
            if each.default is each.empty
            and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        }
    )
    if hasattr(made, "update_variables"):
        made.update_variables(llm_router=litellm.Router(model_list=[]))
    return made
