"""Hostile tool calls through the whole stack, with random models of all families."""
