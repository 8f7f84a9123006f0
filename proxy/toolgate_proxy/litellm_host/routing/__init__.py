"""LiteLLM's router: deployments, fallbacks, and which models our route serves."""
