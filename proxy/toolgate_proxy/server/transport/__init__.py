"""The connection to a client: HTTP limits, reading of bodies, keep-alives, disconnects."""
