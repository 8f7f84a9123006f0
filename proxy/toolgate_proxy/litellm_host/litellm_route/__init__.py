"""Our part of requests that LiteLLM's own handlers serve."""
