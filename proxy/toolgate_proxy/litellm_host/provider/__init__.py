"""LiteLLM's custom provider `toolgate`, for requests on LiteLLM's route."""
