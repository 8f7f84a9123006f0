"""LiteLLM's private names that the gateway uses, and the use of each.

Private means that LiteLLM's documentation does not mention the name. Each name is checked at
start-up and has a behavioural test in tests/proxy/.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from toolgate_core.host_probe import PrivateName, find_problems, incompatibility_message

LOGGING = "litellm.litellm_core_utils.litellm_logging:Logging"
ROUTER = "litellm.router:Router"
FALLBACKS = "litellm.router_utils.fallback_event_handlers"
SERVER = "litellm.proxy.proxy_server"
HOOKS = "litellm.proxy.utils:ProxyLogging"
MCP_HEADERS = ("mcp_auth_header", "mcp_server_auth_headers", "raw_headers")
MCP = "litellm.responses.mcp.litellm_proxy_mcp_handler:LiteLLM_Proxy_MCP_Handler"
WRAPPER = "litellm.litellm_core_utils.streaming_handler:CustomStreamWrapper"
SEARCH_PERMISSION = PrivateName(
    "litellm.proxy.auth.auth_checks:can_token_call_search_tool",
    "permissions for search tools",
    ("search_tool_name", "valid_token"),
    older="litellm.proxy.auth.auth_checks:can_key_call_search_tool",
)

PRIVATE_NAMES: tuple[PrivateName, ...] = (
    # The custom provider, for requests that LiteLLM's own handler serves.
    PrivateName(
        "litellm.main:_complete_custom_providers", "creates the stream of the provider", ("ctx",)
    ),
    PrivateName("litellm.main:get_optional_params", "passes on all of OpenAI's parameters"),
    PrivateName(
        "litellm.main:validate_chat_completion_tool_choice",
        "passes on `tool_choice` of type `allowed_tools`",
        ("tool_choice",),
    ),
    PrivateName("litellm.proxy._types:ProxyException.to_dict", "error bodies in OpenAI's form"),
    PrivateName(f"{SERVER}:ProxyConfig.get_config_state", "providers that the configuration names"),
    PrivateName(
        "litellm.proxy.db.exception_handler:PrismaDBExceptionHandler",
        "error handling without prisma",
    ),
    PrivateName(
        f"{WRAPPER}.__init__",
        "base class of the provider's streams",
        ("completion_stream", "model"),
    ),
    PrivateName(f"{WRAPPER}._restore_consumer_correlation_context", "ends the trace of a stream"),
    # Log events and hooks, on our own route.
    PrivateName(
        "litellm.proxy.litellm_pre_call_utils:add_litellm_data_to_request",
        "data of hooks and log events",
        ("data", "request", "user_api_key_dict", "proxy_config", "general_settings", "version"),
    ),
    PrivateName(
        "litellm.utils:function_setup", "logging objects", ("original_function", "rules_obj")
    ),
    PrivateName("litellm.utils:Rules", "logging objects"),
    PrivateName(
        "litellm.utils:update_response_metadata",
        "costs and timings of log events",
        ("result", "logging_obj", "model", "kwargs", "start_time", "end_time"),
    ),
    PrivateName(
        "litellm.litellm_core_utils.get_litellm_params:get_litellm_params",
        "deployment data in log events",
        ("api_base", "metadata", "model_info", "proxy_server_request"),
    ),
    PrivateName(
        f"{LOGGING}.update_from_kwargs", "log events", ("kwargs", "litellm_params", "model")
    ),
    PrivateName(f"{LOGGING}.dispatch_success_handlers", "log events", ("prefer_async_handlers",)),
    PrivateName(f"{LOGGING}.dispatch_failure_handlers", "log events", ("prefer_async_handlers",)),
    PrivateName(
        f"{LOGGING}.update_completion_start_time",
        "log events of streams",
        ("completion_start_time",),
        older=f"{LOGGING}._update_completion_start_time",
    ),
    PrivateName(
        f"{LOGGING}.get_combined_callback_list", "log events without LiteLLM's own counters"
    ),
    PrivateName(f"{HOOKS}.pre_call_hook", "`async_pre_call_hook`", ("user_api_key_dict", "data")),
    PrivateName(f"{HOOKS}.post_call_failure_hook", "hooks after a failure", ("request_data",)),
    PrivateName(f"{HOOKS}.post_call_success_hook", "hooks after a success", ("data", "response")),
    PrivateName(
        f"{HOOKS}.update_request_status", "alerts about hanging requests", ("litellm_call_id",)
    ),
    # Headers of responses, on our own route.
    PrivateName(
        "litellm.proxy.common_request_processing:ProxyBaseLLMRequestProcessing.get_custom_headers",
        "`x-litellm-…` headers of responses",
        ("user_api_key_dict", "model_id", "response_cost", "hidden_params", "request_data"),
    ),
    PrivateName(
        "litellm.proxy.common_request_processing:ProxyBaseLLMRequestProcessing"
        ".process_chunk_with_cost_injection",
        "`include_cost_in_streaming_usage`",
        ("chunk", "model_name", "litellm_logging_obj"),
    ),
    PrivateName(
        f"{ROUTER}.set_response_headers",
        "headers about limits of models",
        ("response", "model_group"),
    ),
    PrivateName(f"{HOOKS}.get_proxy_hook", "headers about limits of keys", ("hook",)),
    # Guardrails.
    *(
        PrivateName(
            f"litellm.llms.{handler}.process_input_messages",
            "what guardrails get of a request",
            ("data", "guardrail_to_apply", "litellm_logging_obj"),
        )
        for handler in (
            "anthropic.chat.guardrail_translation.handler:AnthropicMessagesHandler",
            "openai.chat.guardrail_translation.handler:OpenAIChatCompletionsHandler",
            "openai.responses.guardrail_translation.handler:OpenAIResponsesHandler",
        )
    ),
    # Hooks and guardrails on responses, on our own route.
    PrivateName(
        f"{HOOKS}.during_call_hook",
        "`async_moderation_hook`",
        ("data", "user_api_key_dict", "call_type"),
    ),
    PrivateName(
        f"{HOOKS}.async_post_call_streaming_iterator_hook",
        "hooks on streams",
        ("response", "user_api_key_dict", "request_data"),
    ),
    PrivateName(
        f"{HOOKS}.async_post_call_streaming_hook",
        "hooks on chunks",
        ("data", "response", "user_api_key_dict", "str_so_far"),
    ),
    PrivateName(f"{HOOKS}.needs_per_chunk_streaming_hook", "hooks on chunks"),
    PrivateName(
        f"{HOOKS}.post_call_response_headers_hook",
        "response headers of hooks",
        ("data", "user_api_key_dict", "response", "request_headers"),
    ),
    PrivateName(f"{HOOKS}.has_post_call_response_headers_callbacks", "response headers of hooks"),
    PrivateName(
        "litellm.llms.openai.responses.transformation:OpenAIResponsesAPIConfig"
        ".transform_streaming_response",
        "events of the Responses API in hooks",
        ("model", "parsed_chunk", "logging_obj"),
    ),
    PrivateName(
        "litellm.utils:async_pre_call_deployment_hook",
        "hooks before a deployment",
        ("kwargs", "call_type"),
    ),
    PrivateName(
        "litellm.utils:async_post_call_success_deployment_hook",
        "hooks after a deployment",
        ("request_data", "response", "call_type"),
    ),
    PrivateName("litellm.caching.caching:Cache.async_get_cache", "response cache"),
    PrivateName("litellm.caching.caching:Cache.async_add_cache", "response cache", ("result",)),
    PrivateName("litellm:get_response_string", "text of a stream for hooks on chunks"),
    PrivateName(
        f"{LOGGING}.pre_call", "routing strategies that count requests", ("input", "api_key")
    ),
    PrivateName(f"{LOGGING}.update_messages", "messages changed by a hook", ("messages",)),
    # Routing.
    PrivateName(f"{ROUTER}.get_model_list", "deployments of a model", ("model_name", "team_id")),
    PrivateName(
        f"{ROUTER}.get_model_from_alias",
        "aliases in log events",
        older=f"{ROUTER}._get_model_from_alias",
    ),
    PrivateName(
        f"{ROUTER}.async_get_available_deployment",
        "limits, tags and routing strategies of deployments",
        ("model", "request_kwargs", "messages"),
    ),
    PrivateName(
        f"{ROUTER}.async_routing_strategy_pre_call_checks", "limits of deployments", ("deployment",)
    ),
    PrivateName(
        "litellm.types.router:CustomPricingLiteLLMParams.model_fields", "prices of deployments"
    ),
    # Retries and fallbacks.
    PrivateName(
        "litellm:get_num_retries_from_retry_policy",
        "retry policies",
        ("exception", "retry_policy", "model_group", "model_group_retry_policy"),
    ),
    PrivateName(
        f"{FALLBACKS}:get_fallback_model_group",
        "fallbacks of a model",
        ("fallbacks", "model_group"),
    ),
    *(
        PrivateName(
            f"{FALLBACKS}:{name}",
            "events of fallbacks",
            ("original_model_group", "kwargs", "original_exception"),
        )
        for name in ("log_success_fallback_event", "log_failure_fallback_event")
    ),
    # Keys.
    PrivateName(
        "litellm.proxy.auth.user_api_key_auth:user_api_key_auth",
        "authentication other than Toolgate's",
        ("request", "api_key"),
    ),
    *(
        PrivateName(f"litellm.proxy.auth.{name}", use, tuple(parameters.split()))
        for name, use, parameters in (
            ("auth_utils:_BANNED_REQUEST_BODY_PARAMS", "fields that requests must not have", ""),
            ("auth_utils:_check_valid_ip", "`allowed_ips`", "allowed_ips request"),
            ("auth_utils:get_end_user_id_from_request_body", "customers", "request_body"),
            ("auth_utils:get_request_route", "the route, independent of the Host header", ""),
            ("fallback_budget:is_token_within_budget_for_model", "budgets", "model valid_token"),
            ("fallback_model_access:is_model_authorized_for_token", "models of keys", "llm_router"),
        )
    ),
    PrivateName(
        "litellm.types.utils:is_litellm_owned_kwarg",
        "fields that are not allowed in request bodies",
    ),
    PrivateName(
        "litellm.proxy._types:LiteLLMRoutes.public_routes", "routes that LiteLLM serves without key"
    ),
    PrivateName("litellm.constants:LITELLM_PROXY_MASTER_KEY_ALIAS", "alias of the administrator"),
    # MCP servers and search tools.
    *(
        PrivateName(f"{MCP}.{name}", "MCP servers", names, older=f"{MCP}._{name}")
        for name, names in (
            ("split_mcp_tools", ("tools",)),
            (
                "process_mcp_tools_without_openai_transform",
                ("user_api_key_auth", "mcp_tools_with_litellm_proxy", *MCP_HEADERS),
            ),
            (
                "execute_tool_calls",
                ("tool_server_map", "tool_calls", "user_api_key_auth", *MCP_HEADERS),
            ),
        )
    ),
    *(
        PrivateName(f"litellm.proxy._experimental.mcp_server.utils:{name}", use, parameters)
        for name, use, parameters in (
            ("logging_safe_mcp_headers", "headers for MCP servers", ("raw_headers",)),
            ("strip_known_server_prefix", "names of MCP tools", ("name", "server")),
            ("upstream_credential_headers", "headers for MCP servers", ("header_names",)),
        )
    ),
    PrivateName(
        "litellm.proxy._experimental.mcp_server.auth.user_api_key_auth_mcp:MCPRequestHandler"
        ".get_mcp_client_side_auth_header_name",
        "headers for MCP servers",
    ),
    PrivateName(
        "litellm.proxy._experimental.mcp_server.mcp_server_manager:MCPServerManager.get_registry",
        "names of MCP servers in metrics, and their headers",
    ),
    PrivateName(f"{MCP}._parse_mcp_result", "failed calls of MCP servers", ("result",)),
    PrivateName(
        "litellm.experimental_mcp_client.client:MCPClient.error_tool_result",
        "failed calls of MCP servers",
        ("exc",),
    ),
    PrivateName(
        "litellm.experimental_mcp_client.client:MCPClient._create_httpx_client_factory",
        "size of responses of MCP servers",
    ),
    PrivateName("mcp.client.stdio:TextReceiveStream", "size of lines of MCP servers"),
    *(
        PrivateName(f"litellm.experimental_mcp_client.client:{name}", "bounds on MCP servers")
        for name in ("MCPClient.list_tools", "MCPClient.call_tool")
    ),
    PrivateName(f"{ROUTER}.__init__", "search tools of the router", ("search_tools",)),
    SEARCH_PERMISSION,
    PrivateName(
        "litellm.proxy._types:LiteLLM_ObjectPermissionTable.model_fields", "permissions of keys"
    ),
    # LiteLLM's database.
    PrivateName("litellm.proxy.proxy_cli:run_server", "creates and migrates the tables"),
    PrivateName(
        "litellm.proxy.auth.auth_checks:get_key_object",
        "aliases of keys",
        ("hashed_token", "prisma_client", "user_api_key_cache"),
    ),
    PrivateName("litellm.proxy.utils:hash_token", "aliases of keys", ("token",)),
    PrivateName(
        f"{SERVER}:ProxyConfig.get_hierarchical_router_settings",
        "`router_settings` of keys and teams",
        ("user_api_key_dict", "prisma_client", "proxy_logging_obj"),
        older=f"{SERVER}:ProxyConfig._get_hierarchical_router_settings",
    ),
    PrivateName("litellm.proxy._types:UserAPIKeyAuth.budget_reservation", "budgets of keys"),
    PrivateName(
        "litellm.litellm_core_utils.core_helpers:bind_budget_reservation_to_callbacks",
        "budgets of keys",
        ("litellm_params",),
    ),
    PrivateName(
        "litellm.proxy.spend_tracking.budget_reservation:release_or_invalidate_budget_reservation",
        "budgets of keys",
        ("budget_reservation",),
    ),
    *(
        PrivateName(f"{SERVER}:{name}", "LiteLLM's configuration")
        for name in (
            "general_settings",
            "litellm_proxy_admin_name",
            "llm_router",
            "master_key",
            "prisma_client",
            "proxy_config",
            "proxy_logging_obj",
            "user_api_key_cache",
            "user_custom_auth",
            "version",
        )
    ),
)


TESTED = ">=1.105.7,<1.111"
"""LiteLLM releases of docs/guide/upgrading.md."""


class LiteLLMChanged(Exception):
    """The message contains LiteLLM's version, the missing names, and the versions that work."""


def check_private_names() -> None:
    """Raise LiteLLMChanged if a private name that the gateway uses is missing."""
    problems = [*find_problems(PRIVATE_NAMES)]
    if problems:
        requirement = f"litellm[proxy]{TESTED}"
        raise LiteLLMChanged(
            incompatibility_message("LiteLLM", version("litellm"), problems, requirement)
        )


def either(held: Any, name: str) -> Any:
    """Return the attribute `name`, or `_name` in releases where it was private."""
    found = getattr(held, name, None)
    return getattr(held, f"_{name}") if found is None else found
