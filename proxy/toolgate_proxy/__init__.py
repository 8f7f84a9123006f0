"""Toolgate's LiteLLM side: the custom provider, admission, response shaping and the command line."""
