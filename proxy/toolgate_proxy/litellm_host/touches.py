"""Every private name of LiteLLM that this gateway uses, and what for.

Private is what LiteLLM's documentation does not name. Each is probed at the start (probe.py), and
has a test of its behaviour in tests/proxy/.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Touch:
    target: str
    """`module:name`, or `module:Class.name`."""
    use: str
    arguments: tuple[str, ...] = ()
    """Names of arguments by which it is called, or is expected to call us."""
    older: str | None = None
    """Its name in older releases."""


LOGGING = "litellm.litellm_core_utils.litellm_logging:Logging"
ROUTER = "litellm.router:Router"
SERVER = "litellm.proxy.proxy_server"
HOOKS = "litellm.proxy.utils:ProxyLogging"
WRAPPER = "litellm.litellm_core_utils.streaming_handler:CustomStreamWrapper"

TOUCHES: tuple[Touch, ...] = (
    # The provider, on LiteLLM's way.
    Touch("litellm.main:_complete_custom_providers", "opens our streams", ("ctx",)),
    Touch("litellm.main:get_optional_params", "lets all of OpenAI's parameters through"),
    Touch(
        "litellm.main:validate_chat_completion_tool_choice",
        "lets `allowed_tools` through",
        ("tool_choice",),
    ),
    Touch("litellm.proxy._types:ProxyException.to_dict", "error bodies are ours"),
    Touch("litellm.proxy.db.exception_handler:PrismaDBExceptionHandler", "runs without prisma"),
    Touch(f"{WRAPPER}.__init__", "our streams are its subclass", ("completion_stream", "model")),
    Touch(f"{WRAPPER}._restore_consumer_correlation_context", "ends a stream's trace"),
    # Log events and hooks, on our own route.
    Touch(
        "litellm.proxy.litellm_pre_call_utils:add_litellm_data_to_request",
        "the data of hooks and log events",
        ("data", "request", "user_api_key_dict", "proxy_config", "general_settings", "version"),
    ),
    Touch("litellm.utils:function_setup", "logging objects", ("original_function", "rules_obj")),
    Touch("litellm.utils:Rules", "logging objects"),
    Touch(
        "litellm.utils:update_response_metadata",
        "costs and timings of log events",
        ("result", "logging_obj", "model", "kwargs", "start_time", "end_time"),
    ),
    Touch(
        "litellm.litellm_core_utils.get_litellm_params:get_litellm_params",
        "the deployment in log events",
        ("api_base", "metadata", "model_info", "proxy_server_request"),
    ),
    Touch(f"{LOGGING}.update_from_kwargs", "log events", ("kwargs", "litellm_params", "model")),
    Touch(f"{LOGGING}.dispatch_success_handlers", "log events", ("prefer_async_handlers",)),
    Touch(f"{LOGGING}.dispatch_failure_handlers", "log events", ("prefer_async_handlers",)),
    Touch(f"{LOGGING}.async_success_handler", "log events", ("result", "start_time", "end_time")),
    Touch(f"{LOGGING}.handle_sync_success_callbacks_for_async_calls", "log events", ("result",)),
    Touch(
        f"{LOGGING}.update_completion_start_time",
        "log events of streams",
        ("completion_start_time",),
        older="_update_completion_start_time",
    ),
    Touch(f"{LOGGING}.get_combined_callback_list", "log events without LiteLLM's own counters"),
    Touch(f"{HOOKS}.pre_call_hook", "`async_pre_call_hook`", ("user_api_key_dict", "data")),
    Touch(f"{HOOKS}.post_call_failure_hook", "hooks after a failure", ("request_data",)),
    Touch(f"{HOOKS}.post_call_success_hook", "observers after the call", ("data", "response")),
    Touch(f"{HOOKS}.update_request_status", "alerts of hanging requests", ("litellm_call_id",)),
    Touch(f"{LOGGING}.pre_call", "strategies that count requests", ("input", "api_key")),
    Touch(f"{LOGGING}.update_messages", "messages that a hook changed", ("messages",)),
    # Routing.
    Touch(f"{ROUTER}.get_model_list", "the deployments of a model", ("model_name",)),
    Touch(f"{ROUTER}.get_model_from_alias", "aliases in log events", older="_get_model_from_alias"),
    Touch(
        f"{ROUTER}.async_get_available_deployment",
        "limits, tags and strategies of deployments",
        ("model", "request_kwargs", "messages"),
    ),
    Touch(
        f"{ROUTER}.async_routing_strategy_pre_call_checks", "limits of deployments", ("deployment",)
    ),
    # Keys.
    Touch(
        "litellm.proxy.auth.user_api_key_auth:user_api_key_auth",
        "other authentication than ours",
        ("request", "api_key"),
    ),
    Touch(
        "litellm.proxy.auth.auth_checks:can_key_call_model",
        "wildcards and access groups of a key's models",
        ("model", "llm_model_list", "valid_token", "llm_router"),
    ),
    Touch("litellm.proxy.auth.auth_utils:get_request_route", "the route, whatever Host says"),
    Touch("litellm.proxy.auth.auth_utils:_BANNED_REQUEST_BODY_PARAMS", "fields that bodies lack"),
    Touch("litellm.types.utils:is_litellm_owned_kwarg", "fields that bodies lack"),
    Touch("litellm.constants:LITELLM_PROXY_MASTER_KEY_ALIAS", "the administrator's alias"),
    *(
        Touch(f"{SERVER}:{name}", "LiteLLM's configuration")
        for name in (
            "general_settings",
            "litellm_proxy_admin_name",
            "llm_model_list",
            "llm_router",
            "master_key",
            "prisma_client",
            "proxy_config",
            "proxy_logging_obj",
            "user_custom_auth",
            "version",
        )
    ),
)
