"""The phases of a turn: which tokens each allows next, and the state after a token."""
