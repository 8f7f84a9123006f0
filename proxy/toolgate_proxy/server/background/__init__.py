"""Responses that are generated in the background, without a client that waits for them."""
