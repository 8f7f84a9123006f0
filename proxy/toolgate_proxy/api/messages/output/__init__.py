"""The message that a request is answered with, whole and as events."""
