"""OpenAI's chat completions API."""
