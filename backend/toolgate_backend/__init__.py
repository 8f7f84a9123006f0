"""Toolgate's plug-in of vLLM: grammar enforcement and the raw token-stream endpoint."""
