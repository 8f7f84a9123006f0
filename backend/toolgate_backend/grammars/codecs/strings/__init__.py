"""Strings as raw text: terminals, formats and patterns."""
