"""The name by which LiteLLM's configuration knows our authentication:
`general_settings.custom_auth: toolgate_proxy.auth.authenticate`."""

from .litellm_host.auth import authenticate

__all__ = ["authenticate"]
