"""Stored responses of the Responses API: in Redis, or in the process without Redis."""
