"""System prompt and messages of a request, in the form of chat templates."""
