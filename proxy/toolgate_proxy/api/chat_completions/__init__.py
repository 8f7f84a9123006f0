"""The chat completions API of OpenAI."""
