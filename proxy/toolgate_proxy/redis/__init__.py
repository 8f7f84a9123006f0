"""The connection to Redis that keys, limits and grammars use."""
