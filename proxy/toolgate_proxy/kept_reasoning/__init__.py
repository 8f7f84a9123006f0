"""Reasoning of turns with calls, kept for clients that do not send it back."""
