"""`toolgate launch`: coding agents with this gateway."""
