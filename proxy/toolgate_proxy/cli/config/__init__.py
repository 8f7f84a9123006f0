"""The check of LiteLLM's configuration file."""
