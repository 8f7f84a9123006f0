"""LiteLLM's deployments: its router, our selection among them, and the route a model's requests take."""
