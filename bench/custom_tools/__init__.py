"""Hostile calls of custom tools, read by parsers that share nothing with the masks."""
