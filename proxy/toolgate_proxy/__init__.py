"""Toolgate's gateway: LiteLLM's custom provider, its launcher, and the command line."""
