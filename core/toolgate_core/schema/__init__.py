"""JSON Schemas: normalised from any draft, checked, and rewritten for the grammar engines."""
