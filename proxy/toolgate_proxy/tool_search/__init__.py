"""The search for tools that a request defers, which the gateway runs."""
