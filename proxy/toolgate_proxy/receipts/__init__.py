"""Signed receipts: what was enforced of a response, verifiable offline."""
