"""Validation of complete calls against the schemas of their tools."""
