"""`/toolgate/*`: status, prewarming of grammars, and the report on tool schemas."""
