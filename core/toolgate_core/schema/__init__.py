"""JSON Schemas as grammars see them: read in any draft, surveyed, and rewritten soundly."""
