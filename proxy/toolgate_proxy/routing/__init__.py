"""Choice of a deployment: health, load in flight, and prefix affinity."""
