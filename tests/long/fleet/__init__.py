"""A simulated fleet: the gateways' own limiter, keys and grammar cache under a virtual clock."""
