"""LiteLLM's private names that the gateway uses, and the use of each.

Private means that LiteLLM's documentation does not mention the name. Each name is checked at
start-up and has a behavioural test in tests/proxy/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version

from toolgate_core.host_probe import PrivateName, find_problems, incompatibility_message

from .routing.long_term import earlier_name

TABLE = """
The custom provider, for requests that LiteLLM's own handler serves

litellm.main:
    _complete_custom_providers(ctx): creates the stream of the provider
litellm.litellm_core_utils.streaming_handler:CustomStreamWrapper.
    __init__(completion_stream model): base class of the provider's streams
litellm.proxy._types:ProxyException.
    to_dict: error bodies in OpenAI's form
litellm.proxy.db.exception_handler:
    PrismaDBExceptionHandler: error handling without prisma

Log events and hooks, on our own route

litellm.proxy.litellm_pre_call_utils:
    add_litellm_data_to_request(data request user_api_key_dict general_settings): data of hooks
    _normalized_metadata_object(field value): metadata without LiteLLM's own members
litellm.utils:
    function_setup(original_function rules_obj): logging objects
    update_response_metadata(result logging_obj model kwargs start_time end_time): costs in events
litellm.litellm_core_utils.litellm_logging:Logging.
    update_from_kwargs(kwargs litellm_params model): log events
    dispatch_success_handlers(prefer_async_handlers): log events
    dispatch_failure_handlers(prefer_async_handlers): log events
    get_combined_callback_list: log events without LiteLLM's own counters
    pre_call(input api_key): routing strategies that count requests
litellm.proxy.utils:ProxyLogging.
    pre_call_hook(user_api_key_dict data guardrails_only): `async_pre_call_hook`
    post_call_failure_hook(request_data): hooks after a failure
    post_call_success_hook(data response): hooks after a success
    update_request_status(litellm_call_id): alerts about hanging requests
    during_call_hook(data user_api_key_dict call_type): `async_moderation_hook`
    async_post_call_streaming_iterator_hook(response user_api_key_dict request_data): streams
    async_post_call_streaming_hook(data response user_api_key_dict str_so_far): hooks on chunks
    post_call_response_headers_hook(data user_api_key_dict response request_headers): headers
litellm.llms.openai.responses.transformation:OpenAIResponsesAPIConfig.
    transform_streaming_response(model parsed_chunk logging_obj): events of Responses in hooks
litellm.llms.anthropic.chat.guardrail_translation.handler:AnthropicMessagesHandler.
    process_input_messages(data guardrail_to_apply litellm_logging_obj): what guardrails get
litellm.llms.openai.chat.guardrail_translation.handler:OpenAIChatCompletionsHandler.
    process_input_messages(data guardrail_to_apply litellm_logging_obj): what guardrails get
litellm.llms.openai.responses.guardrail_translation.handler:OpenAIResponsesHandler.
    process_input_messages(data guardrail_to_apply litellm_logging_obj): what guardrails get

Headers of responses, and costs

litellm.proxy.common_request_processing:ProxyBaseLLMRequestProcessing.
    get_custom_headers(user_api_key_dict model_id response_cost hidden_params): `x-litellm-...`
    process_chunk_with_cost_injection(chunk model_name): `include_cost_in_streaming_usage`
litellm.router:Router.
    set_response_headers(response model_group): headers about limits of models
litellm.types.router:
    CustomPricingLiteLLMParams.model_fields: prices of deployments

Routing, retries and fallbacks

litellm.router:Router.
    async_routing_strategy_pre_call_checks(deployment): limits of deployments
litellm:
    get_num_retries_from_retry_policy(exception retry_policy model_group): retry policies

Keys, and what requests may have

litellm.proxy.auth.user_api_key_auth:
    user_api_key_auth(request api_key): authentication other than Toolgate's
litellm.proxy.auth.auth_utils:
    _BANNED_REQUEST_BODY_PARAMS: fields that requests must not have
    _check_valid_ip(allowed_ips request): `allowed_ips`
    get_end_user_id_from_request_body(request_body): customers
litellm.constants:
    LITELLM_PROXY_MASTER_KEY_ALIAS: the name of the master key
litellm.proxy.auth.fallback_budget:
    is_token_within_budget_for_model(model valid_token): budgets
litellm.proxy.auth.fallback_model_access:
    is_model_authorized_for_token(llm_router): models of keys
litellm.types.utils:
    is_litellm_owned_kwarg: fields that are not allowed in request bodies

MCP servers and search tools

litellm.proxy.mcp_server.auth.user_api_key_auth_mcp:MCPRequestHandler.
    get_mcp_client_side_auth_header_name: headers for MCP servers
litellm.responses.mcp.litellm_proxy_mcp_handler:LiteLLM_Proxy_MCP_Handler.
    split_mcp_tools(tools): MCP servers
    process_mcp_tools_without_openai_transform(user_api_key_auth mcp_tools_with_litellm_proxy
        mcp_auth_header mcp_server_auth_headers raw_headers): MCP servers
    execute_tool_calls(tool_server_map tool_calls user_api_key_auth mcp_auth_header
        mcp_server_auth_headers raw_headers): MCP servers
litellm.proxy.mcp_server.utils:
    logging_safe_mcp_headers(raw_headers): headers for MCP servers
    strip_known_server_prefix(name server): names of MCP tools
    upstream_credential_headers(header_names): headers for MCP servers
litellm.proxy.mcp_server.mcp_server_manager:MCPServerManager.
    get_registry: names of MCP servers in metrics, and their headers
litellm.mcp_client.client:MCPClient.
    error_tool_result(exc): failed calls of MCP servers
    _create_httpx_client_factory: size of responses of MCP servers
    list_tools: bounds on MCP servers
    call_tool: bounds on MCP servers
mcp.client.stdio:
    TextReceiveStream: size of lines of MCP servers

LiteLLM's database

litellm.proxy.auth.auth_checks:
    can_token_call_search_tool(search_tool_name valid_token): permissions for search tools
    get_key_object(hashed_token prisma_client user_api_key_cache): aliases of keys
litellm.proxy.proxy_server:ProxyConfig.
    get_hierarchical_router_settings(user_api_key_dict prisma_client): settings of keys and teams
    get_config_state: providers that the configuration names
litellm.proxy._types:
    UserAPIKeyAuth.budget_reservation: budgets of keys
litellm.litellm_core_utils.core_helpers:
    bind_budget_reservation_to_callbacks(litellm_params): budgets of keys
litellm.proxy.spend_tracking.budget_reservation:
    release_or_invalidate_budget_reservation(budget_reservation): budgets of keys

LiteLLM's configuration

litellm.proxy.proxy_server:
    general_settings: settings
    llm_router: the router
    master_key: authentication
    prisma_client: the database
    proxy_config: settings
    proxy_logging_obj: hooks
    user_api_key_cache: keys
    user_custom_auth: authentication
"""
"""What names begin with, and below it the names, the arguments that they take, and their use."""
ROW = re.compile(
    r"(?P<begin>[\w.]+:[\w.]*)"
    r"|    (?P<name>[\w.]+)(?:\((?P<arguments>[^)]*)\))?: (?P<use>.+)"
)


def _names() -> Iterator[PrivateName]:
    begin = ""
    for row in ROW.finditer(TABLE):
        begin = row["begin"] or begin
        if (name := row["name"]) is not None:
            arguments = tuple((row["arguments"] or "").split())
            target = begin + name
            yield PrivateName(target, row["use"], arguments, older=earlier_name(target))


PRIVATE_NAMES = tuple(_names())
TESTED = ">=1.108,<1.111"
"""LiteLLM releases of docs/guide/upgrading.md."""


class LiteLLMChanged(Exception):
    """LiteLLM lacks names. The message has its version, the names, and the versions that work."""


def check_private_names() -> None:
    """Raise LiteLLMChanged if a private name that the gateway uses is missing."""
    problems = [*find_problems(PRIVATE_NAMES)]
    if problems:
        requirement = f"litellm[proxy]{TESTED}"
        raise LiteLLMChanged(
            incompatibility_message("LiteLLM", version("litellm"), problems, requirement)
        )
