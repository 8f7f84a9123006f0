"""The API surfaces of the gateway: each turns HTTP bodies into chat requests and events into responses."""
