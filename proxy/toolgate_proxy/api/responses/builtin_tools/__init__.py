"""Tools that OpenAI defines and clients run: the shells, and the tool that edits files."""
