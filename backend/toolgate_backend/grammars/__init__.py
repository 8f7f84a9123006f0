"""Grammars of tool calls: choice of the engine, compilation, and the cache of compiled grammars."""
