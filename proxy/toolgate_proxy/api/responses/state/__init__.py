"""Stored responses: what a request takes from them, and what is stored of it."""
