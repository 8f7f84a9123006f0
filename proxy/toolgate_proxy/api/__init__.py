"""The API surfaces: HTTP bodies to chat requests, events to responses."""
