"""Tokens of one choice → reasoning, content and tool calls."""
