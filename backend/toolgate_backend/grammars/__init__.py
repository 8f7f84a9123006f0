"""Grammars of tool calls: which engine holds a schema, compiling it, and keeping what compiled."""
