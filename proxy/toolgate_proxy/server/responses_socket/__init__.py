"""The WebSocket mode of the Responses API: each message is a request of its own."""
