"""Dialects: how each model family writes reasoning, content and tool calls."""
