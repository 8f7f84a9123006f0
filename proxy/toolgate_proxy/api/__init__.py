"""API surfaces: convert HTTP bodies to chat requests, and response events to HTTP responses."""
