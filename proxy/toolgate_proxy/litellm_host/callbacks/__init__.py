"""LiteLLM's callbacks: which are configured, and the hooks and log events they receive."""
