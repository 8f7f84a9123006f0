"""The token graph of a grammar: masks and steps by look-up, shared by all sequences."""
