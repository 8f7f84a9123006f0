"""Responses that are generated in the background, without a client that waits for them.

The request goes through the gateway a second time, on its own: limits, log and metrics are those of
that request (run.py). Redis has its state and its events (place.py).
"""
