"""The page at `/`."""
