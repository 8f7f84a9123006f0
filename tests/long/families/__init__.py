"""Proof of the dialects: random walks of their enforcement, read by independent parsers."""
