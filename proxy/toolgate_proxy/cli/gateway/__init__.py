"""`toolgate status`: the state of a running gateway."""
