"""The token-stream endpoint that the plug-in adds to vLLM's server."""
