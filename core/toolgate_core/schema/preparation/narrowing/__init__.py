"""Schemas of fewer values, which masks can enforce."""
