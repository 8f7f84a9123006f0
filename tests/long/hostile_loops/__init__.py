"""Hostile loops: a random model calls the tools of a faulty MCP server, which the gateway runs."""

import os

# When it is imported, LiteLLM otherwise fetches a table of prices.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
# Its own times for MCP servers, which busy cores must not reach.
for name in ("LITELLM_MCP_CLIENT_TIMEOUT", "LITELLM_MCP_TOOL_LISTING_TIMEOUT"):
    os.environ.setdefault(name, "300")
