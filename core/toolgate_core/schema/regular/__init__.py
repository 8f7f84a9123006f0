"""Patterns of JSON Schema, parsed."""
