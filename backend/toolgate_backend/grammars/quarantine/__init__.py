"""Compilation of new schemas in a subprocess with resource limits."""
