"""The text of a call: its opening and head, the tools it can still be a call of, its id."""
