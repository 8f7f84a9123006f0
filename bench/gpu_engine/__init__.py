"""What enforcement costs in whole engines on a GPU, without API processes."""
