"""Jobs that run in processes which are killed when they exceed their limits."""
