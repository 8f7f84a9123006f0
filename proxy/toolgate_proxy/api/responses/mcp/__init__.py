"""MCP servers in the Responses API."""
