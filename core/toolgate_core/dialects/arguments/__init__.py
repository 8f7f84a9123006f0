"""Parsers of arguments: the text that the model writes → JSON, incrementally."""
