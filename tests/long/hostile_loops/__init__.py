"""Hostile loops: a random model calls the tools of a faulty MCP server, which the gateway runs."""

import os

# When it is imported, LiteLLM otherwise fetches a table of prices.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
