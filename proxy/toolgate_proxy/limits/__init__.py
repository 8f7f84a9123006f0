"""What a key may use, counted exactly over all gateways of a fleet."""
