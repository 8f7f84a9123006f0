"""Verdicts of backends on tool schemas, in memory, and in Redis with the compiled grammars."""
