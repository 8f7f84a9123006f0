"""`toolgate keys`: virtual keys."""
