"""Tokens of the model: its vocabulary, sets of tokens as masks, and an index by bytes."""
