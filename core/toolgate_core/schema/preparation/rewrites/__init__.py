"""Rewrites of single keywords into others that grammar engines support."""
