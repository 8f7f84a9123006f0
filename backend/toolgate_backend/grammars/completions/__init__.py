"""Short completions: tokens that take a grammar from any position to the end of its text."""
