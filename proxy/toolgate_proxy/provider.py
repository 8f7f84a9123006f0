"""The name by which LiteLLM's configuration knows our provider:
`litellm_settings.custom_provider_map[].custom_handler: toolgate_proxy.provider.toolgate`."""

from .litellm_host.litellm_route.provider import toolgate

__all__ = ["toolgate"]
