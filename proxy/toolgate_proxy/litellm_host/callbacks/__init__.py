"""LiteLLM's callbacks: guardrails, hooks and log events of a request on our route."""
