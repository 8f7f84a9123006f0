"""Metrics of the requests that clients send."""
