"""The output of a response: items, events, and the response object."""
