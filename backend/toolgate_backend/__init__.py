"""Toolgate's vLLM plug-in: grammar enforcement, and an endpoint that streams raw tokens."""
