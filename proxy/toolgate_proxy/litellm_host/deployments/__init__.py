"""LiteLLM's deployments: its router, our selection, and the route for a model's requests."""
