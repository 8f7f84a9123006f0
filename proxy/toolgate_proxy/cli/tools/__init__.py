"""`toolgate schema` and `toolgate prewarm`: tools in files."""
