"""The gateway's own route in this process, LiteLLM's MCP servers and a search engine, as the tests
of the server have them."""

from tests.proxy.server.conftest import calls, calls_of_module, engine, gateway

__all__ = ["calls", "calls_of_module", "engine", "gateway"]
