"""Redis connection shared by keys, limits and grammars."""
