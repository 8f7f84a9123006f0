"""What enforcement adds to a step of vLLM's engine, without a GPU."""
