"""Rate limits of keys: admission, reservations, and counters shared by all gateways."""
