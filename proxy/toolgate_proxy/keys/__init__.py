"""Virtual keys: their model, their stores in Redis and in a file, and the cache of a gateway."""
