"""The HTTP server: middleware and our own route in LiteLLM's app."""
