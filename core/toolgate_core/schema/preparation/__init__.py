"""Preparation of a schema for the grammar engines, and what they leave to validation."""
