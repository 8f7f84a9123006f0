"""Validation of finished calls against their tool's schema."""
