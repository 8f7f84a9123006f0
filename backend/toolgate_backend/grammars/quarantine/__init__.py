"""Compilation of new grammars in a resource-limited subprocess."""
